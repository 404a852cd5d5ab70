"""Takes the pictures of docs/images: the real page of a real server, in a real Chromium.

make pictures
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader"]
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
PROMPT = "Give webhook deliveries a retry budget per endpoint, with a check"

BASHRC = r"""
PS1='\[\e[34m\]\w\[\e[0m\] on \[\e[35m\]$(git branch --show-current)\[\e[0m\]\n\[\e[32m\]❯\[\e[0m\] '
alias ls='ls --color=auto'
"""
DISPATCH = '''\
LIMIT = 5


def retry(delivery) -> str:
    """What becomes of a delivery that failed."""
    return "give up" if delivery.attempts >= LIMIT else "retry"
'''
TESTS = """\
import pytest

from budget import Budget


@pytest.mark.parametrize("size", [1, 2, 20])
def test_a_budget_is_spent(size):
    budget = Budget(size=size, left=size)
    assert all(budget.spend(0) for _ in range(size))
    assert not budget.spend(0)


def test_it_is_refilled():
    budget = Budget(left=0, refill=1)
    assert budget.spend(1)
"""
BUSY = {  # what stays at work while the pictures are taken: prompt, what it says, what it runs
    "gemini": (
        "Flaky test: delivery order",
        "Two deliveries to one endpoint may overtake each other:\n\n"
        "- the queue is ordered by **time**, not by number\n- a retry goes to its end\n\n"
        "I make the test fail first, 20 times in a row.",
        "pytest -q -k order --count 20",
    ),
    "qwen": (
        "German translation of the guide",
        "12 of 31 pages are translated:\n\n1. `start.md`\n2. `deliveries.md`\n3. `signing.md`\n\n"
        "*Endpoint* stays as it is, *delivery* becomes **Zustellung**.",
        "sphinx-build docs/de",
    ),
    "cursor": (
        "Upgrade the page to Svelte 5",
        "What has to change:\n\n- `export let` becomes `$props()`\n- stores become `$state`\n"
        "- 3 slots become snippets\n\nThe build tells me what I missed.",
        "npx vite build",
    ),
}
ASK: dict[str, Any] = {
    "tool": "shell",
    "input": {"command": "alembic upgrade head"},
    "options": ["allow_once", "allow_always", "reject_once"],
    "reason": "It reaches localhost:5432, outside the folder.",
}
CHECK = {"command": "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 pytest -q --no-header", "title": "pytest -q --no-header"}
ASKING = {  # what waits for an answer: prompt, and what is done before
    "codex": ("Pin the CI images", [{"ask": {"tool": "edit", "title": "edit .github/workflows/ci.yml"}}]),
    "claude": (
        "A restart forgets the budget. Persist it, with a migration and tests.",
        [
            {"think": "Where does the budget belong: delivery or endpoint?"},
            {
                "say": "The budget belongs to the **endpoint**: one slow consumer must not spend everybody's retries. "
                "So I\n\n- add `budget` and `refill_at` to `endpoint`,\n- spend one per retry, in the transaction "
                "that books it."
            },
            {"ask": {**ASK, "input": {"command": CHECK["title"]}, "then": [{"run": CHECK}]}},
            {"say": "The tests pass. The new columns come next."},
            {"ask": ASK},
        ],
    ),
}
PAST: list[tuple[str, str, list[dict[str, Any]]]] = [
    ("cursor", "Dark mode sweep", [{"usage": {"cost_usd": 0.11}}, {"say": "No colour is written by hand any more."}]),
    ("opencode", "Changelog for 2.3", [{"usage": {"cost_usd": 0.03}}, {"say": "It has 14 entries."}]),
    ("codex", "Bump node to 24", [{"fail": {"kind": "limited", "message": "the weekly limit is reached"}}]),
    ("claude", "Explain the ledger schema", [{"usage": {"cost_usd": 0.12}}, {"say": "Two tables and a view."}]),
]


class Show:
    """A server in a home of its own, with work in it."""

    def __init__(self, base: Path) -> None:
        self.home, self.project = base / "home", base / "home/src/paddock"
        self.project.mkdir(parents=True)
        (self.home / ".bashrc").write_text(BASHRC)
        self.scenario = base / "scenario.json"
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "OSTLER_ONLY": "script",
            "OSTLER_SCENARIO": str(self.scenario),
        }
        self.scenario.write_text(json.dumps({"reply": replies()}))
        self._prepare()
        self.url = json.loads(self.ostler("up", "--detach", "--json"))["url"]

    def ostler(self, *args: str) -> str:
        command = [sys.executable, "-m", "ostler", *args]
        done = subprocess.run(command, cwd=self.project, env=self.env, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    def _prepare(self) -> None:
        (self.project / "dispatch.py").write_text(DISPATCH)
        (self.project / "test_budget.py").write_text(TESTS)
        (self.project / ".gitignore").write_text("__pycache__\n.pytest_cache\n")
        self._git("config", "--global", "user.name", "Ada")
        self._git("config", "--global", "user.email", "ada@paddock.example")
        self._git("init", "-q", "-b", "main")
        for says in ("Deliver webhooks", "Give up after five attempts", "Tests of the budget to come"):
            self._git("add", "-A")
            self._git("commit", "-q", "--allow-empty", "-m", says)
        self._git("checkout", "-q", "-b", "retry-budget")

    def _git(self, *args: str) -> None:
        subprocess.run(["git", *args], cwd=self.project, env=self.env, check=True)


def replies() -> list[dict[str, Any]]:
    """The demo's turn without its last words: it stays at work. Then those of all others."""
    demo = tomllib.loads((DOCS.parent / "examples/demo.toml").read_text())["reply"][0]["steps"]
    quick = [{"stream": {**s["stream"], "delay": 0}} if "stream" in s else s for s in demo if "wait" not in s]
    plan = [s for s in quick if "plan" in s][-2]  # not all of it is done yet
    at_work = [*[s for s in quick[:-1] if s is not [p for p in quick if "plan" in p][-1]], plan]
    found = [{"match": "retry budget", "steps": [*at_work, open_tool("python3 -m pytest --cov"), {"never_end": True}]}]
    for prompt, says, command in BUSY.values():
        steps = [{"run": "ls"}, {"say": says}, open_tool(command)]
        found.append({"match": prompt, "steps": [*steps, {"never_end": True}]})
    found += [{"match": prompt, "steps": steps} for prompt, steps in ASKING.values()]
    found += [{"match": prompt, "steps": steps} for _, prompt, steps in PAST]
    return found


def open_tool(command: str) -> dict[str, Any]:
    return {"tool": {"name": "shell", "title": command, "input": {"command": command}, "ended": False}}


class Window:
    """A browser window on it, and what a person does there."""

    def __init__(self, show: Show, browser: Browser, **context: Any) -> None:
        context = {"viewport": DESK, "color_scheme": "dark", **context}
        self.show, self.page = show, browser.new_context(**context).new_page()
        self.page.goto(json.loads(show.ostler("link", "--json"))["link"])
        self.page.wait_for_selector(".app")

    def go(self, place: str, until: str) -> Page:
        self.page.goto(f"{self.show.url}/#/{place}")
        self.page.wait_for_selector(until)
        return self.page

    def call(self, path: str, body: dict[str, Any]) -> Any:
        script = """async ([path, body]) => {
            const headers = {"Content-Type": "application/json"};
            const answer = await fetch(path, {method: "POST", headers, body: JSON.stringify(body)});
            if (!answer.ok) throw new Error(await answer.text());
            return answer.status === 204 ? null : answer.json();
        }"""
        return self.page.evaluate(script, [path, body])

    def begin(self, agent: str, prompt: str, transport: str = "pipe") -> str:
        body = {"agent": agent, "folder": str(self.show.project), "access": "write"}
        id = str(self.call("/api/sessions", body)["id"])
        self.call(f"/api/sessions/{id}/turns", {"prompt": prompt, "transport": transport})
        return id

    def open(self, session: str, name: str, argv: list[str], **more: Any) -> str:
        folder = str(self.show.project)
        body = {"session": session, "argv": argv, "name": name, "folder": folder, "cols": 84, "rows": 36, **more}
        return str(self.call("/api/terminals", body)["id"])

    def type(self, terminal: str, line: str, until: str) -> None:
        """Types it, and waits for words that the screen then shows, and for the next prompt."""
        self.page.keyboard.type(line)
        self.page.keyboard.press("Enter")
        self.wait(terminal, until)
        ready = "id => window.__ostlerTerminals?.[id]?.text().trimEnd().endsWith('❯')"
        self.page.wait_for_function(ready, arg=terminal)

    def wait(self, terminal: str, words: str) -> None:
        script = "([id, words]) => window.__ostlerTerminals?.[id]?.text().includes(words)"
        self.page.wait_for_function(script, arg=[terminal, words])

    def take(self, name: str) -> None:
        self.page.evaluate("document.fonts.ready")
        self.page.wait_for_timeout(1500)  # tiles are painted at a pace of their own
        self.page.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
        print(f"{name}.png  {(IMAGES / f'{name}.png').stat().st_size // 1000} kB")


def first_visit(window: Window) -> None:
    page = window.go("new", ".stall")
    page.fill("#prompt", PROMPT)
    page.get_by_role("button", name="claude").click()
    page.fill("#folder", "~/src/paddock")
    page.get_by_role("group", name="Access").get_by_text("write").click()
    page.set_input_files("form.first input[type=file]", window.show.project / "dispatch.py")
    page.focus("#prompt")
    window.take("page-start")


def session(window: Window) -> tuple[str, str]:
    """Everything at work; the one session, with a shell in which somebody types."""
    for agent, prompt, _ in PAST:
        id = window.begin(agent, prompt)
        window.go(f"s/{id}", ".envelope")
    for agent, (prompt, _, _) in BUSY.items():
        window.go(f"s/{window.begin(agent, prompt)}", ".tool >> nth=1")
    id = window.begin("claude", PROMPT)
    page = window.go(f"s/{id}", ".tool:has-text('--cov')")
    terminal = window.open(id, "bash", ["bash"], primary=True)
    page.click("text=Take the keyboard")
    window.wait(terminal, "❯")
    window.type(terminal, "git status -sb", "?? check_budget.py")
    window.type(terminal, "git add -AN && git diff --stat", "3 files changed")
    window.type(terminal, "pytest -v --no-header", "4 passed")
    window.type(terminal, "git log --oneline --graph", "Deliver webhooks")
    return id, terminal


def shells(window: Window, session: str) -> None:
    """More to see on the wall."""
    window.open(session, "diff", ["git", "-c", "core.pager=less -R -+F", "diff"])
    window.open(session, "log", ["bash", "-ic", "git log --stat --color=always | cat; exec bash"])
    repl = window.open(session, "python", ["python3", "-q"])
    window.go(f"t/{repl}", f"[data-terminal='{repl}']")
    window.wait(repl, ">>>")
    lines = "from budget import Budget\nb = Budget(size=2, left=2)\n[b.spend(0) for _ in range(3)]\nb\n"
    for line in lines.splitlines():
        window.call(f"/api/terminals/{repl}/input", {"message": {"kind": "text", "text": f"{line}\n"}, "take": True})
    tests = window.open(session, "tests", ["bash", "-ic", "pytest --no-header --color=yes -v; exec bash"])
    window.go(f"t/{tests}", f"[data-terminal='{tests}']")
    window.wait(tests, "4 passed")


def asks(window: Window) -> None:
    """One that was allowed, one that is open and has the focus."""
    for agent, (prompt, _) in ASKING.items():
        page = window.go(f"s/{window.begin(agent, prompt, 'dialog')}", ".ask")
    page.get_by_role("button", name="Allow", exact=True).click()
    page.wait_for_selector(".ask:has-text('alembic')")
    page.focus(".ask")
    window.take("page-ask")


def main() -> int:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-headless-shell", "google-chrome"))), None)
    if chromium is None:
        print("Chromium is needed for pictures: make deps", file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as base, at_work(Path(base)) as show, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        pictures(show, browser)
        browser.close()
    return 0


def pictures(show: Show, browser: Browser) -> None:
    window = Window(show, browser)
    first_visit(window)
    id, terminal = session(window)
    window.take("page-session")
    window.page.emulate_media(color_scheme="light")
    window.take("page-session-light")
    window.page.emulate_media(color_scheme="dark")
    look_back(window, terminal)
    window.take("page-replay")
    shells(window, id)
    window.go("grid", ".tile >> nth=6")
    window.take("page-grid")
    phone = Window(show, browser, viewport=PHONE, device_scale_factor=2, has_touch=True, is_mobile=True)
    phone.page.tap(f".session:has-text('{PROMPT}')")
    phone.page.wait_for_selector(".tool:has-text('--cov')")
    phone.take("page-phone")
    asks(window)


def look_back(window: Window, terminal: str) -> None:
    """Opens its recording, then goes to a time before its end, which is live."""
    slider = window.page.locator(".reel:visible .track")
    for part in (0.1, 0.85):
        slider.click(position={"x": (slider.bounding_box() or {"width": 0})["width"] * part, "y": 8})
        window.page.wait_for_selector(f"[data-terminal='{terminal}:recording']")


@contextmanager
def at_work(base: Path) -> Iterator[Show]:
    show = Show(base)
    try:
        yield show
    finally:
        show.ostler("down")


if __name__ == "__main__":
    sys.exit(main())

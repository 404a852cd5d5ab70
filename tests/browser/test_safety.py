"""What an agent, a program or a file is called or says never acts in the page, with and without its CSP."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Dialog, expect

from browser.conftest import PATIENCE, Reader, Server
from browser.seat import FRONT

Visit = Callable[..., Reader]
expect.set_options(timeout=PATIENCE)

ELSEWHERE = "http://elsewhere.example"
NAME = "<img src=x onerror=window.hit=1>"  # also a good name for a file
HTML = f"""
{NAME}<script>window.hit=1</script><svg onload=window.hit=1><script>window.hit=1</script></svg>
<iframe srcdoc="<script>parent.hit=1</script>"></iframe><iframe src="javascript:parent.hit=1"></iframe>
<details open ontoggle=window.hit=1><summary>s</summary></details><input autofocus onfocus=window.hit=1>
<video><source onerror=window.hit=1></video><body onload=window.hit=1><object data="{ELSEWHERE}/o"></object>
<style>@import url({ELSEWHERE}/i.css); body {{ background: url({ELSEWHERE}/b.png) }}</style>
<link rel=stylesheet href="{ELSEWHERE}/l.css"><base href="{ELSEWHERE}/">
<meta http-equiv=refresh content="0;{ELSEWHERE}">
<form action="{ELSEWHERE}"><button id=press>press</button></form><p style="position:fixed;inset:0">over all</p>
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=x onerror=window.hit=1&gt;">
<a href="javascript:window.hit=1">press me</a> <a href="JaVa&#10;Script:window.hit=1">and me</a>
<a onclick="window.hit=1">me</a> <a href="data:text/html,<script>opener.hit=1</script>" target=_self>data</a>
"""
MARKDOWN = f"""
[press me](javascript:window.hit=1) [and me](java\tscript:window.hit=1) [data](data:text/html;base64,PHNjcmlwdD4=)
![image]({ELSEWHERE}/i.png) ![x](x"onerror=window.hit=1) [![nested]({ELSEWHERE}/n.png)](javascript:window.hit=1)
<javascript:window.hit=1> [ref] [good link]({ELSEWHERE}/good) <Button> H<sub>2</sub>O

[ref]: javascript:window.hit=1 "title' onmouseover='window.hit=1"

```html" onmouseover="window.hit=1
{NAME}
```

| {NAME} | <script>window.hit=1</script> |
|---|---|
| `{NAME}` | [press me](javascript:window.hit=1) |
"""
STEPS: list[dict[str, Any]] = [
    {"think": HTML},
    {"say": HTML},
    {"say": MARKDOWN},
    {"stream": {"text": MARKDOWN + HTML, "delay": 0}},
    {"plan": [{"text": NAME, "status": "active"}]},
    {"notice": NAME},
    {"stderr": NAME},
    {"tool": {"name": NAME, "title": HTML, "input": {NAME: HTML}, "output": HTML, "ok": False}},
    {"tool": {"name": "edit", "title": NAME, "input": {"old_string": NAME, "new_string": HTML}}},
    {"run": {"command": f"echo '{NAME}'; exit 1"}},
    {"write": {"path": NAME, "content": HTML}},
    {"ask": {"tool": NAME, "input": {"command": NAME}}},
    {"retry": {"error": "limited", "message": NAME, "attempt": 1, "retry_in": 1}},
    {"garbage": json.dumps({"kind": NAME, "text": HTML}) + f"\n{NAME}\n"},
    {"fail": {"kind": "failed", "message": NAME}},
]
LOOK_AT_ALL = """() => {
    for (const fold of document.querySelectorAll('details')) fold.open = true;
    for (const one of document.querySelectorAll('.journal *')) {
        for (const kind of ['pointerover', 'mouseover', 'focus']) one.dispatchEvent(new Event(kind, {bubbles: true}));
    }
}"""
TARGETS = "[...document.querySelectorAll('a[href], form[action]')].map(one => one.href ?? one.action)"
FORBIDDEN = (
    ".journal :is(img, script, iframe, style, link, svg:not(.icon, .state), form, object, base, meta, video, math), "
    ".journal [style*=fixed]"
)


class Watch:
    """Everything that a window did which it should not have."""

    def __init__(self, reader: Reader) -> None:
        self.page, self.origin = reader.page, reader.server.url
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.console: list[str] = []
        context = self.page.context
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("dialog", self._dismiss)
        context.on("console", lambda message: self.console.append(message.text))
        self.answer = self.page.reload()
        self.page.wait_for_selector(".app")

    def _dismiss(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def nothing_happened(self) -> None:
        assert self.page.evaluate("window.hit") is None
        assert self.dialogs == []
        assert self.requests, "it did ask its own server"
        assert [url for url in self.requests if not url.startswith((f"{self.origin}/", "blob:", "data:"))] == []
        assert [line for line in self.console if "Content Security Policy" in line] == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("server")
    server = Server(base)
    scenario = base / "scenario.json"
    scenario.write_text(json.dumps({"reply": [{"steps": STEPS}]}))
    server.environ["OSTLER_SCENARIO"] = str(scenario)
    server.start()
    yield server
    server.stop()


def attacked(reader: Reader, name: str) -> tuple[str, str]:
    """A session and a terminal in which everything that has a name or a text is an attack."""
    folder = Path(reader.server.folder, NAME)
    folder.mkdir(exist_ok=True)
    body = {"agent": "claude", "name": name, "folder": str(folder), "access": "write", "model": NAME}
    session = reader.call("POST", "/api/sessions", body)["id"]
    reader.call("POST", f"/api/sessions/{session}/turns", {"prompt": NAME + HTML})
    command = f"printf '\\033]2;{NAME}\\007%s' '{NAME}'; cat"
    terminal = reader.call("POST", "/api/terminals", {"session": session, "argv": ["sh", "-c", command], "name": NAME})
    return session, str(terminal["id"])


@pytest.mark.parametrize("policy", [True, False], ids=["with its CSP", "without a CSP"])
def test_no_attack_runs_anywhere_in_the_page(visit: Visit, policy: bool) -> None:
    reader = visit() if policy else visit(bypass_csp=True)
    page, watch = reader.page, Watch(reader)
    session, terminal = attacked(reader, f"{NAME} {policy}")
    page.goto(f"{watch.origin}/#/s/{session}")
    envelope = page.locator(".envelope")
    expect(envelope).to_contain_text(NAME)
    page.wait_for_selector(f"{FRONT}[data-terminal='{terminal}']")
    envelope.get_by_text("details").click()
    expect(envelope.locator(".pairs")).to_contain_text(NAME)
    page.click("[aria-label='More: fork, copy, delete']")
    page.click("text=Show quiet events")
    for kind in ("prompt", "text", "thought", "tool", "plan", "ask", "limited", "notice", "raw"):
        page.locator(f".entry[data-kind={kind}]").first.scroll_into_view_if_needed()
        page.evaluate(LOOK_AT_ALL)
    expect(page.locator(FORBIDDEN)).to_have_count(0)
    expect(page.locator(".entry[data-kind=text] a", has_text="good link")).to_have_count(2)  # harmless ones stay links
    expect(page.locator(".entry[data-kind=text]", has_text="<Button>").locator("sub")).to_have_text(["2", "2"])
    assert {target.split(":")[0] for target in page.evaluate(TARGETS)} == {"http"}
    for words in page.locator(".entry[data-kind=text]").get_by_text("press me").all():
        words.click()
    watch.nothing_happened()

    page.goto(f"{watch.origin}/#/grid")
    expect(page.locator(".tile", has_text=NAME).first).to_be_visible()
    page.goto(f"{watch.origin}/#/t/{terminal}")
    expect(page.locator(".full-view")).to_contain_text(NAME)
    page.goto(f"{watch.origin}/#/new")
    page.focus("#folder")
    expect(page.locator("#folder-list")).to_contain_text(NAME)
    page.set_input_files("form.first input[type=file]", {"name": NAME, "mimeType": "text/html", "buffer": b"x"})
    expect(page.locator(".attached")).to_contain_text(NAME)
    page.fill("#folder", f"/nowhere/{NAME}/")
    expect(page.locator(".combo .said")).to_contain_text(NAME)
    page.keyboard.press("Control+k")
    page.keyboard.type("onerror")
    expect(page.locator("#palette-list")).to_contain_text(NAME)
    page.goto(f"{watch.origin}/#/s/{NAME}")
    expect(page.locator("h1")).to_contain_text(NAME)
    watch.nothing_happened()


def test_what_got_into_the_page_all_the_same_would_not_run(visit: Visit) -> None:
    reader = visit()
    page, watch = reader.page, Watch(reader)
    assert watch.answer
    policy = watch.answer.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "default-src 'self';" in policy
    with page.expect_console_message(lambda message: "Content Security Policy" in message.text):
        page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", NAME)
    with page.expect_console_message(lambda message: "Content Security Policy" in message.text):
        page.evaluate("address => fetch(address).catch(() => 0)", ELSEWHERE)
    assert page.evaluate("window.hit") is None
    assert not [url for url in watch.requests if url.startswith(ELSEWHERE)]


def test_the_watch_sees_what_does_run(visit: Visit) -> None:
    reader = visit(bypass_csp=True)
    watch = Watch(reader)
    reader.page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", NAME)
    reader.page.wait_for_function("() => window.hit === 1")
    with pytest.raises(AssertionError):
        watch.nothing_happened()
    reader.page.evaluate("address => fetch(address).catch(() => 0)", ELSEWHERE)
    assert [url for url in watch.requests if url.startswith(ELSEWHERE)]

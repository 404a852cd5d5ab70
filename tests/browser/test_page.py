"""The page but for its terminals: logging in, starting and watching turns, keys, looks, the server's death."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from browser.conftest import PATIENCE, Reader, Server
from browser.seat import Seat
from browser.test_machines import picture
from waiting import wait_until

Visit = Callable[..., Reader]
expect.set_options(timeout=PATIENCE)

ASKED = {"kind": "asked", "id": "q9", "tool": "shell", "input": {"command": "alembic upgrade head"}}
REPLIES: list[dict[str, Any]] = [
    {
        "match": "budget",
        "steps": [
            {"think": "Where does it belong?\nTo the endpoint."},
            {"stream": {"text": "It belongs to the **endpoint**:\n\n- add `budget`\n- spend it\n", "delay": 0}},
            {"plan": [{"text": "Read", "status": "done"}, {"text": "Change", "status": "active"}, "Test"]},
            {"tool": {"name": "edit", "title": "dispatch.py", "input": {"old_string": "a = 1", "new_string": "a = 2"}}},
            {"write": {"path": "budget.py", "content": "SIZE = 20\n"}},
            {"run": "echo checked-$((40 + 2)); exit 3"},
            {"usage": {"input_tokens": 41200, "output_tokens": 2900, "cost_usd": 0.17}},
            {"echo": "attach"},
        ],
    },
    {"match": r"until (?P<file>\S+)", "steps": [{"say": "I wait."}, {"wait_for": "{file}"}, {"say": "It is there."}]},
    {
        "match": r"figures after (?P<file>\S+)",
        "steps": [
            {"say": "I count."},
            {"wait_for": "{file}"},
            {"usage": {"input_tokens": 41200, "output_tokens": 2900, "cost_usd": 0.17}},
        ],
    },
    {"match": "without end", "steps": [{"say": "I begin."}, {"never_end": True}]},
    {"match": "what did I say", "steps": [{"history": True}]},
    {
        "match": "ask and go on",
        "steps": [{"ask": {"tool": "shell", "input": {"command": "rm x"}}}, {"say": "So be it."}],
    },
    {
        "match": r"ask and wait for (?P<file>\S+)",
        "steps": [{"garbage": json.dumps(ASKED) + "\n"}, {"wait_for": "{file}"}, {"say": "Nobody said a word."}],
    },
    {"match": "talk", "steps": [{"say": f"paragraph {n}\n\n" * 3} for n in range(30)]},
    {"steps": [{"say": "You said: {prompt}"}]},
]
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
# What moves for as long as nothing else happens: its name, what changes, and how.
ENDLESS = """() => document.getAnimations()
    .filter(one => one.effect.getTiming().iterations === Infinity)
    .map(one => {
        const frames = one.effect.getKeyframes();
        const about = ["offset", "computedOffset", "composite", "easing"];
        const moved = frames.flatMap(frame => Object.keys(frame)).filter(name => !about.includes(name));
        return [one.animationName, moved, frames.map(frame => frame.easing)];
    })"""


class Scripted(Server):
    """With an agent that plays REPLIES, also in what a shell beside it runs."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        scenario = base / "scenario.json"
        scenario.write_text(json.dumps({"reply": REPLIES}))
        self.environ["OSTLER_SCENARIO"] = str(scenario)

        self._shells: list[subprocess.Popen[str]] = []

    def shell(self, *args: str) -> "subprocess.Popen[str]":
        """A command beside the test, which has to read it to its end."""
        self._shells.append(self.spawn(*args))
        return self._shells[-1]

    def stop(self) -> None:
        for shell in self._shells:
            if shell.poll() is None:  # only where a test failed
                shell.terminate()
                shell.communicate()
        super().stop()

    def allow(self, name: str) -> None:
        """What an agent waits for."""
        (self.folder / name).touch()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scripted]:
    server = Scripted(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.stop()


def begin(reader: Reader, prompt: str, **more: Any) -> str:
    """A session with this turn begun, shown. Returns the session's id."""
    id = begin_elsewhere(reader, prompt, **more)
    reader.page.goto(f"{reader.server.url}/#/s/{id}")
    reader.page.wait_for_selector(".p-terminal")
    return id


def begin_elsewhere(reader: Reader, prompt: str, **more: Any) -> str:
    """The same while the page stays where it is."""
    id = str(reader.call("POST", "/api/sessions", {"agent": "claude", "folder": str(reader.server.folder)})["id"])
    reader.call("POST", f"/api/sessions/{id}/turns", {"prompt": prompt, **more})
    return id


def said(page: Page) -> Locator:
    """What the agent said."""
    return page.locator(".entry[data-kind=text] > div")


def ended(page: Page, words: str) -> Locator:
    """The envelope with these words, once it is there."""
    found = page.locator(".envelope", has_text=words)
    expect(found).to_be_visible()
    return found


def press_until(page: Page, key: str, seen: Locator) -> None:
    """Presses a key until its effect is seen: of two keys in a row the second counts only for a moment."""
    while not seen.is_visible():
        page.keyboard.press(key)


@pytest.mark.core
def test_a_link_lets_one_browser_in_once(chromium: Browser, server: Scripted) -> None:
    link = server.link()
    assert "#t=" in link
    guest, stranger = chromium.new_context(), chromium.new_context()
    try:
        first, page = guest.new_page(), stranger.new_page()
        first.goto(link)
        first.wait_for_selector(".app")
        assert "t=" not in first.url
        first.go_back()
        first.go_forward()
        first.wait_for_selector(".app")
        assert "t=" not in first.url, "it is not in the history either"
        page.goto(server.url)
        expect(page.locator(".login")).to_contain_text("You are not logged in")
        page.goto("about:blank")
        page.goto(link)
        expect(page.locator(".login .problem, .login [role=alert]")).to_contain_text("link")
        expect(page.locator(".login")).to_contain_text("ostler link")
        assert "t=" not in page.url
    finally:
        guest.close()
        stranger.close()


def test_a_link_pasted_into_the_tab_that_asks_for_one_logs_in(chromium: Browser, server: Scripted) -> None:
    """Only the fragment of the address changes then, and the browser loads nothing by itself."""
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator(".login")).to_contain_text("You are not logged in")
        page.evaluate("link => { location.href = link; }", server.link())
        expect(page.locator(".app")).to_be_visible()
        assert "t=" not in page.url
    finally:
        context.close()


def test_a_spent_link_pasted_there_is_called_invalid(chromium: Browser, server: Scripted) -> None:
    link = server.link()
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.goto(link)
        expect(page.locator(".app")).to_be_visible()
        context.clear_cookies()
        page.goto("about:blank")
        page.goto(server.url)
        expect(page.locator(".login")).to_contain_text("You are not logged in")
        page.evaluate("link => { location.href = link; }", link)
        expect(page.locator(".login .problem, .login [role=alert]")).to_contain_text("invalid or has expired")
        assert "t=" not in page.url
    finally:
        context.close()


def test_a_link_with_more_rights_counts_in_a_window_that_could_only_look(visit: Visit, server: Scripted) -> None:
    page = visit("Ada", "view", alone=True).page
    expect(page.get_by_text("view only").first).to_be_visible()
    page.evaluate("link => { location.href = link; }", server.link())
    expect(page.get_by_text("view only")).to_have_count(0)
    expect(page.locator(".app")).to_be_visible()


def test_logging_out_ends_every_window_of_this_browser(visit: Visit) -> None:
    """One with a terminal and one with the list: both say how to log in, and neither tries again for ever."""
    reader = visit()
    reader.new_session()
    seat = Seat(reader)
    seat.open_shell()
    other = reader.page.context.new_page()
    other.goto(reader.server.url)
    other.wait_for_selector(".app")
    reader.page.evaluate(
        "window.opened = 0; const Old = WebSocket; WebSocket = function (at) { opened++; return new Old(at) }; 0"
    )
    asked: list[str] = []
    reader.page.on("request", lambda request: asked.append(request.url))
    other.evaluate("fetch('/api/logout', {method: 'POST'})")
    for page in (reader.page, other):
        expect(page.locator(".login")).to_contain_text("You are not logged in")
    assert reader.page.evaluate("opened") == 0
    assert len(asked) <= 2, asked  # a stream may be asked for once more, to be told so
    other.close()
    reader.enter(reader.server.link())  # for the tests that come after


@pytest.mark.core
def test_a_turn_is_started_in_the_page_and_watched(visit: Visit, server: Scripted) -> None:
    page = visit().page
    (server.folder / "notes.txt").write_text("remember\n")
    page.keyboard.press("n")
    page.get_by_role("button", name="codex").click()
    page.fill("#folder", f"{server.folder.parent}/wo")
    expect(page.locator("#folder-list [role=option]")).to_have_text(str(server.folder))
    page.press("#folder", "ArrowDown")
    page.press("#folder", "Enter")
    expect(page.locator("#folder")).to_have_value(str(server.folder))
    page.get_by_role("group", name="Access").get_by_text("write").click()
    slow: list[Route] = []

    def hold(route: Route) -> None:
        slow.append(route)

    page.route("**/api/uploads/*", hold)
    page.set_input_files("form.first input[type=file]", server.folder / "notes.txt")
    expect(page.locator(".attached")).to_contain_text("notes.txt")
    page.fill("#prompt", "Give each endpoint a retry budget")
    page.press("#prompt", "Control+Enter")
    expect(page.locator("form.first .btn.primary")).to_contain_text("Starting…")  # once the file is there
    slow.pop().continue_()

    envelope = ended(page, "Turn 1 done")
    expect(page).to_have_url(re.compile(r"#/s/\S+$"))
    expect(page.locator("h1")).to_have_text("Give each endpoint a retry budget")
    expect(page.locator(".entry[data-kind=prompt]")).to_contain_text("write")
    journal = page.locator(".journal")
    expect(journal.locator(".entry[data-kind=text] strong")).to_have_text("endpoint")
    expect(journal.locator(".entry[data-kind=text] li")).to_have_text(["add budget", "spend it"])
    thought = journal.locator(".thought")
    expect(thought).not_to_have_attribute("open", re.compile(""))
    thought.locator("summary").click()
    expect(thought.locator(".literal")).to_have_text("Where does it belong?\nTo the endpoint.")
    expect(journal.locator(".plan-card")).to_contain_text("1 of 3")
    edit = journal.locator(".tool", has_text="Edit")
    expect(edit.locator(".ln.del")).to_contain_text("a = 1")
    expect(edit.locator(".ln.add")).to_contain_text("a = 2")
    new = journal.locator(".tool", has_text="budget.py")
    expect(new).to_contain_text("+1")
    new.locator("summary").click()
    expect(new.locator(".ln.add")).to_contain_text("SIZE = 20")
    run = journal.locator(".tool", has_text="exit 3")
    expect(run.locator(".output")).to_have_text("checked-42")  # what failed is shown at once
    expect(said(page).last).to_contain_text("notes.txt")
    expect(envelope).to_contain_text("41.2k in")
    expect(envelope).to_contain_text("2.9k out")
    expect(envelope).to_contain_text("$0.17")
    expect(envelope).to_contain_text("proof: result")
    envelope.get_by_text("details").click()
    expect(envelope.locator(".pairs")).to_contain_text("served by script")
    expect(envelope.locator(".pairs")).to_contain_text("budget.py")
    expect(page.locator(".session[aria-current]")).to_contain_text("$0.17")
    assert (server.folder / "budget.py").read_text() == "SIZE = 20\n"


PROFILES = """
[profiles.reviewer]
agent = "claude"
model = "opus"
description = "Reads the last commit, and says what is wrong"
color = "magenta"
access = "write"

[profiles.scribe]
agent = "codex"
description = "Writes the docs"
color = "#0a6a7c"
"""


def test_a_profile_of_the_folder_is_chosen_with_its_description_and_colour(visit: Visit, server: Scripted) -> None:
    reader = visit()
    page = reader.page
    folder = server.folder.parent / "profiled"
    folder.mkdir()
    (folder / "ostler.toml").write_text(PROFILES)
    page.goto(f"{server.url}/#/new")
    group = page.get_by_role("group", name="Profile")
    page.fill("#folder", str(folder))
    expect(page.locator(".said-notice")).to_contain_text("is not trusted: profiles.reviewer, profiles.scribe ignored")
    expect(group).to_have_count(0)
    assert server.run("trust", str(folder), "--yes").returncode == 0
    page.fill("#folder", f"{folder}/")
    expect(group.get_by_role("button")).to_have_text(["reviewer", "scribe"])
    expect(page.locator(".said-notice")).to_have_count(0)

    group.get_by_role("button", name="scribe").click()
    about = page.locator(".first .about")
    expect(about).to_contain_text("Writes the docs")
    expect(about).to_have_css("border-left-color", "rgb(10, 106, 124)")
    group.get_by_role("button", name="reviewer").click()
    expect(about).to_contain_text("Reads the last commit, and says what is wrong")
    expect(about).to_contain_text("claude · opus")
    dot = group.get_by_role("button", name="reviewer").locator(".dot")
    for shown, property in ((dot, "background-color"), (about, "border-left-color")):
        expect(shown).to_have_css(property, "rgb(238, 143, 226)")  # as it is read on a dark ground
    expect(page.get_by_role("group", name="Access").get_by_text("write")).to_have_attribute("aria-pressed", "true")

    page.fill("#prompt", "hello")
    page.press("#prompt", "Control+Enter")
    ended(page, "Turn 1 done")
    session = reader.call("GET", f"/api/sessions/{page.url.rpartition('/')[2]}")
    found = [session[name] for name in ("profile", "agent", "model", "access")]
    assert found == ["reviewer", "claude", "opus", "write"]

    page.goto(f"{server.url}/#/new")
    page.fill("#folder", str(server.folder))
    expect(group).to_have_count(0)


def test_what_stands_in_the_way_of_a_turn_is_said(visit: Visit, server: Scripted) -> None:
    page = visit().page
    page.goto(f"{server.url}/#/new")
    start = page.get_by_role("button", name="Start turn")
    page.get_by_role("button", name="claude").click()
    page.fill("#folder", str(server.folder / "no such folder"))
    expect(start).to_have_attribute("title", "Write a prompt")
    page.fill("#prompt", "hello")
    start.click()
    expect(page.locator("form.first [role=alert]")).to_contain_text("no such folder")
    page.fill("#folder", str(server.folder))
    start.click()
    ended(page, "Turn 1 done")


@pytest.mark.core
def test_a_file_is_dropped_on_the_next_prompt(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    reader.new_session()
    dropped = page.evaluate_handle(
        "() => { const data = new DataTransfer(); data.items.add(new File(['x'], 'dropped.md')); return data; }"
    )
    page.dispatch_event(".composer", "dragover", {"dataTransfer": dropped})
    expect(page.locator("#next")).to_have_attribute("placeholder", "Drop to attach")
    page.dispatch_event(".composer", "drop", {"dataTransfer": dropped})
    expect(page.locator(".attached")).to_contain_text("dropped.md")
    page.fill("#next", "the budget")
    page.click(".composer .btn.primary")
    ended(page, "Turn 1 done")
    expect(said(page).last).to_contain_text("dropped.md")
    expect(page.locator(".prompt .attached")).to_have_text("dropped.md")
    expect(page.locator(".composer .attached")).to_have_count(0)


@pytest.mark.core
def test_a_turn_of_a_shell_appears_as_it_happens(visit: Visit, server: Scripted) -> None:
    page = visit().page
    page.wait_for_selector(".p-sessions, .start")
    shell = server.shell("run", "claude", "until shell-go", "--name", "from-a-shell", "--quiet")
    row = page.locator(".session", has_text="until shell-go")
    expect(row.locator(".state")).to_have_attribute("aria-label", "busy")
    row.click()
    expect(said(page)).to_have_text("I wait.")
    expect(page.locator(".turnbar")).to_contain_text("Busy")
    expect(page.locator(".row-2 .chip", has_text="from-a-shell")).to_be_visible()
    server.allow("shell-go")
    ended(page, "Turn 1 done")
    expect(said(page).last).to_have_text("It is there.")
    assert shell.communicate()[0] == "It is there.\n"
    expect(row.locator(".state")).to_have_attribute("aria-label", "done")


@pytest.mark.core
def test_a_turn_is_cancelled(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    id = begin(reader, "work without end")
    expect(said(page)).to_have_text("I begin.")
    page.emulate_media(reduced_motion="no-preference")
    page.wait_for_function(f"() => ({ENDLESS})().some(([name]) => name === 'turn')")
    moving = page.evaluate(ENDLESS)
    page.emulate_media(reduced_motion="reduce")
    for name, moved, easings in moving:
        assert set(moved) <= {"transform", "opacity"}, f"{name}: all else is drawn anew for each frame"
        assert all(easing.startswith("steps(") for easing in easings), f"{name}: sixty frames a second while one waits"
    page.wait_for_function(f"() => ({ENDLESS})().length === 0")
    page.click("text=Cancel turn")
    ended(page, "Turn 1 cancelled")
    expect(page.locator(".session[aria-current]")).to_contain_text("cancelled")
    reader.call("POST", f"/api/sessions/{id}/turns", {"prompt": "again without end"})
    expect(page.locator(".turnbar")).to_contain_text("Busy")
    expect(said(page)).to_have_count(2)
    press_until(page, "x", page.get_by_text("Cancelling…").or_(page.get_by_text("Turn 2 cancelled")))
    ended(page, "Turn 2 cancelled")


def test_an_answer_that_comes_late_does_not_bring_an_ended_turn_back(visit: Visit, server: Scripted) -> None:
    reader = visit()
    page = reader.page
    path = f"/api/sessions/{begin(reader, 'figures after late-go')}/turns"
    expect(page.locator(".turnbar")).to_contain_text("Busy")
    running = reader.call("GET", path)
    assert running["items"][0]["state"] == "running"
    asked: list[Route] = []

    def hold(route: Route) -> None:
        asked.append(route)
        if len(asked) > 2:
            route.continue_()

    def held(number: int) -> Route:
        while len(asked) <= number:
            page.wait_for_timeout(20)  # the page's own events are heard meanwhile
        return asked[number]

    # Not `times=2`: Playwright then lets go of the second one, if it is there before the first one is answered.
    page.route(f"**{path}", hold)
    page.reload()
    held(0).fulfill(json=running)
    late = held(1)  # asked again for what /api/live tells of the session
    server.allow("late-go")
    expect(page.locator(".session[aria-current]")).to_contain_text("$0.17")
    late.fulfill(json=running)
    expect(ended(page, "Turn 1 done")).to_contain_text("41.2k in")


@pytest.mark.core
def test_prompts_queue_while_a_turn_runs(visit: Visit, server: Scripted) -> None:
    reader = visit()
    page = reader.page
    begin(reader, "until queue-go")
    send = page.locator(".composer .btn.primary")
    expect(send).to_contain_text("Queue")
    for prompt in ("the second", "the third"):
        page.fill("#next", prompt)
        page.press("#next", "Control+Enter")
        expect(page.locator(".prompt.waiting", has_text=prompt)).to_contain_text("Queued")
    page.locator(".prompt.waiting", has_text="the second").get_by_text("Withdraw").click()
    expect(page.locator(".prompt.waiting")).to_have_count(1)
    server.allow("queue-go")
    ended(page, "You said: the third")
    expect(page.locator(".prompt.waiting")).to_have_count(0)
    expect(page.get_by_text("You said: the second")).to_have_count(0)
    expect(send).to_contain_text("Send")


def test_a_fork_goes_on_where_the_other_one_stood(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    first = begin(reader, "keep this in mind")
    ended(page, "Turn 1 done")
    page.click(".p-journal .row-1 >> text=Fork")
    page.wait_for_function("id => !location.hash.includes(id)", arg=first)
    expect(page.locator(".row-2 .chip", has_text="fork")).to_be_visible()
    page.fill("#next", "what did I say?")
    page.press("#next", "Control+Enter")
    ended(page, "Turn 1 done")
    expect(said(page).last).to_have_text("keep this in mind")


def test_a_session_that_was_handed_over_leads_to_the_one_that_goes_on(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    session = reader.new_session()
    reader.call("POST", f"/api/sessions/{session}/turns", {"prompt": "[[say:half done]]"})
    wait_until(lambda: reader.call("GET", f"/api/sessions/{session}")["state"] == "idle")
    expect(page.locator(".heir")).to_have_count(0)
    heir = reader.call("POST", f"/api/sessions/{session}/hand", {"agent": "codex", "prompt": "[[say:finished]]"})["id"]
    goes_on = page.get_by_role("link", name="continued by codex")
    expect(goes_on).to_be_visible()
    picture(reader, "heir")
    goes_on.click()
    expect(page).to_have_url(re.compile(rf"#/s/{heir}"))
    page.get_by_role("link", name="handed over").click()
    expect(page).to_have_url(re.compile(rf"#/s/{session}"))


def test_a_question_of_the_agent_can_be_read(visit: Visit, server: Scripted) -> None:
    reader = visit()
    page = reader.page
    begin(reader, "ask and wait for ask-go")
    ask = page.locator(".ask")
    expect(ask).to_contain_text("claude asks to run a command")
    expect(ask.locator(".what")).to_have_text("$ alembic upgrade head")
    server.allow("ask-go")
    ended(page, "Turn 1")
    expect(page.locator(".entry[data-kind=ask]")).to_contain_text("was not answered")
    begin(reader, "ask and go on")
    ended(page, "Turn 1")
    expect(page.locator(".entry[data-kind=ask]")).to_contain_text("Denied by script")
    expect(page.locator(".entry[data-kind=ask] code")).to_have_text("rm x")


def test_everything_has_a_key(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    page.goto(f"{reader.server.url}/#/new")  # where no turn is drawn
    ids = []
    for word in ("one", "two", "three"):
        ids.append(begin_elsewhere(reader, f"key {word}"))
        expect(page.locator(".session", has_text=f"key {word}").locator(".state")).to_have_attribute(
            "aria-label", "done"
        )
    page.goto(f"{reader.server.url}/#/s/{ids[-1]}")
    ended(page, "You said: key three")
    keys = page.keyboard
    keys.press("/")
    expect(page.locator(".list-tools input")).to_be_focused()
    keys.type("two")
    keys.insert_text(" is:done agent:claude")  # the list is drawn for each key
    expect(page.locator(".session b")).to_have_text(["key two"])
    keys.insert_text(" nowhere")
    expect(page.locator(".sessions")).to_contain_text("No sessions match")
    keys.press("Escape")
    expect(page.locator(".list-tools input")).not_to_be_focused()
    expect(page.locator(".session", has_text="key one")).to_be_visible()
    keys.press("j")
    expect(page.locator("h1")).to_have_text("key two")
    keys.press("j")
    expect(page.locator("h1")).to_have_text("key one")
    keys.press("k")
    expect(page.locator("h1")).to_have_text("key two")
    assert ids[1] in page.url
    keys.press("c")
    expect(page.locator("#next")).to_be_focused()
    keys.type("n ? g g")
    expect(page.locator("#next")).to_have_value("n ? g g")  # in a field letters are letters
    keys.press("Escape")
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Grid of all live terminals")
    keys.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    keys.press("Control+k")
    expect(page.get_by_role("combobox", name="Command or session")).to_be_focused()
    keys.insert_text("key one")
    keys.press("Enter")
    expect(page.locator("h1")).to_have_text("key one")
    keys.press("g")
    keys.press("g")
    expect(page.locator("h1")).to_have_text("Grid")
    keys.press("n")
    expect(page.locator("#prompt")).to_be_focused()
    keys.press("Escape")
    keys.press("Escape")
    expect(page.locator(".p-start")).to_have_count(0)


def test_while_one_reads_further_up_nothing_moves(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    id = begin(reader, "talk")
    ended(page, "Turn 1 done")
    page.wait_for_function("() => { const b = document.querySelector('.journal'); return b.scrollTop > 500; }")
    page.evaluate("document.querySelector('.journal').scrollTop = 300")
    expect(page.locator(".to-end")).to_be_visible()
    page.wait_for_function("() => document.querySelector('.journal').scrollTop === 300")
    reader.call("POST", f"/api/sessions/{id}/turns", {"prompt": "more"})
    expect(page.locator(".to-end")).to_contain_text("new")
    assert page.evaluate("document.querySelector('.journal').scrollTop") == 300
    page.keyboard.press("e")
    expect(page.locator(".to-end")).to_have_count(0)
    ended(page, "You said: more")


def test_dark_and_light(visit: Visit) -> None:
    light, dark = "rgb(250, 249, 247)", "rgb(24, 23, 22)"
    reader = visit()
    page = reader.page
    view = page.locator(".view")
    page.emulate_media(color_scheme="light")
    page.reload()
    reader.new_session()
    expect(view).to_have_css("background-color", light)
    page.emulate_media(color_scheme="dark")
    expect(view).to_have_css("background-color", dark)  # as the system has it
    page.get_by_role("button", name="Light").click()
    expect(view).to_have_css("background-color", light)
    page.reload()
    page.wait_for_selector(".p-journal")
    expect(view).to_have_css("background-color", light)  # the choice is remembered
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(view).to_have_css("background-color", dark)


@pytest.mark.core
def test_on_a_phone_there_is_one_pane_at_a_time(visit: Visit, server: Scripted) -> None:
    phone = visit(**PHONE)
    page = phone.page
    begin_elsewhere(phone, "phone budget")
    fits = "() => document.scrollingElement.scrollWidth <= 390"
    journal, terminal, sessions = page.locator(".p-journal"), page.locator(".p-terminal"), page.locator(".p-sessions")
    row = page.locator(".session", has_text="phone budget")
    expect(row.locator(".state")).to_have_attribute("aria-label", "done")
    expect(journal).to_be_hidden()
    page.wait_for_function(fits)
    row.tap()
    expect(journal).to_be_visible()
    expect(sessions).to_be_hidden()
    page.wait_for_function(fits)
    page.fill("#next", "from a phone")
    page.tap(".composer .btn.primary")
    ended(page, "You said: from a phone")
    page.tap(".rail >> text=Terminal")
    expect(terminal).to_be_visible()
    expect(journal).to_be_hidden()
    page.wait_for_function(fits)
    page.tap(".rail >> text=Sessions")
    expect(sessions).to_be_visible()
    page.goto(f"{server.url}/#/new")
    expect(page.locator("#prompt")).to_be_visible()
    page.wait_for_function(fits)


def test_on_a_phone_a_changed_address_brings_its_session_forward(visit: Visit, server: Scripted) -> None:
    phone = visit(**PHONE)
    page = phone.page
    ids = [begin_elsewhere(phone, words) for words in ("the first", "the second")]
    journal, sessions = page.locator(".p-journal"), page.locator(".p-sessions")
    expect(sessions).to_be_visible()
    for id, words in zip(ids, ("the first", "the second"), strict=True):
        page.evaluate("id => (location.hash = `#/s/${id}`)", id)  # typed, or by somebody's link
        expect(page.locator("h1")).to_have_text(words)
        expect(journal).to_be_visible()
        expect(sessions).to_be_hidden()
        page.get_by_role("button", name="Back to sessions").click()
        expect(sessions).to_be_visible()
    page.go_back()
    expect(page.locator("h1")).to_have_text("the first")
    expect(journal).to_be_visible()
    page.click(".rail >> text=Grid")
    expect(page.locator("h1")).to_have_text("Grid")
    page.click(".rail >> text=Sessions")  # which goes to the address of a session, and means the list
    expect(sessions).to_be_visible()
    expect(journal).to_be_hidden()


def test_a_part_that_could_not_be_fetched_comes_when_the_phone_is_online_again(visit: Visit) -> None:
    """What is missing is said in words, where it belongs, and only there: on a phone one pane is seen at a time."""
    reader = visit()
    page = reader.page
    page.set_viewport_size({"width": 390, "height": 844})
    page.route("**/assets/TerminalPane*", lambda route: route.abort())
    page.route("**/assets/viewer*", lambda route: route.abort())
    page.reload()
    id = reader.call("POST", "/api/sessions", {"agent": "claude", "folder": str(reader.server.folder)})["id"]
    page.goto(f"{reader.server.url}/#/s/{id}")
    told = page.get_by_text("This part of the page could not be loaded")
    expect(told).to_have_count(1)
    expect(page.locator(".p-journal")).to_be_visible()
    expect(told).to_be_hidden()
    page.get_by_role("link", name="Terminal").or_(page.get_by_role("button", name="Terminal")).first.click()
    expect(told).to_be_visible()
    page.unroute_all()
    page.context.set_offline(True)
    page.context.set_offline(False)
    expect(told).to_have_count(0)
    expect(page.get_by_text("No terminal yet")).to_have_count(1)


def test_the_form_of_a_new_turn_fits_a_phone(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{reader.server.url}/#/new")
    expect(page.get_by_role("group", name="Run as")).to_be_visible()
    right = "one => one.getBoundingClientRect().right"
    form = page.locator("form.first").evaluate(right)
    assert all(page.locator(".first .choice .seg").nth(n).evaluate(right) <= form for n in range(2))


def test_the_folder_of_a_session_is_readable_beside_a_long_model(visit: Visit) -> None:
    """On a laptop the header has no room for everything: the name of the model gives way first."""
    reader = visit()
    (folder := reader.server.home / "shop").mkdir()
    body = {"agent": "claude", "folder": str(folder), "model": "claude-sonnet-4-5-20250929", "name": "delivery"}
    id = reader.call("POST", "/api/sessions", body)["id"]
    page = reader.page
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{reader.server.url}/#/s/{id}")
    expect(page.locator(".row-2 .where")).to_be_visible()
    shown = page.locator(".row-2 .where .tail")
    expect(shown).to_have_text("~/shop")
    assert shown.evaluate("one => one.scrollWidth <= one.clientWidth"), shown.bounding_box()


def test_agents_that_could_not_be_loaded_are_listed_with_the_reason(visit: Visit) -> None:
    reader = visit()
    page, known = reader.page, reader.call("GET", "/api/agents")
    found: dict[str, Any] = {"problems": [{"name": "acme", "message": "it cannot be loaded"}]}

    def answer(route: Route) -> None:
        route.fulfill(json={**known, **found})

    page.route("**/api/agents*", answer)
    page.keyboard.press("n")
    expect(page.locator(".stall", has_text="built in")).to_be_visible()
    listed = page.get_by_role("list", name="Agents that could not be loaded").get_by_role("listitem")
    page.click("text=Check again")  # the page may have asked before this test came between
    expect(listed).to_have_text(["acme it cannot be loaded"])
    found["problems"] = [{"name": "acme", "message": "it wants Python 4"}, {"name": "zeta", "message": "no such file"}]
    page.click("text=Check again")
    expect(listed).to_have_text(["acme it wants Python 4", "zeta no such file"])
    expect(listed.first).to_have_css("color", "rgb(243, 183, 73)")
    found.update(problems=[])
    page.click("text=Check again")
    expect(listed).to_have_count(0)
    page.unroute_all(behavior="wait")


@pytest.mark.core
def test_who_may_only_look_is_offered_nothing_else(visit: Visit, server: Scripted) -> None:
    owner = visit()
    begin(owner, "until guest-go")
    expect(owner.page.get_by_text("Cancel turn")).to_be_visible()
    guest = visit("Guest", "view")
    page = guest.page
    page.goto(owner.page.url)
    expect(said(page)).to_have_text("I wait.")
    expect(page.locator(".composer-off")).to_contain_text("ostler link --rights type")
    expect(page.locator(".status .rights")).to_have_text("view only")
    for offer in (
        ".composer",
        "text=Cancel turn",
        "text=New turn",
        ".p-journal >> text=Fork",
        "[aria-label='New terminal']",
    ):
        expect(page.locator(offer)).to_have_count(0)
    page.keyboard.press("n")
    page.keyboard.press("x")
    page.keyboard.press("x")
    server.allow("guest-go")
    ended(page, "Turn 1 done")
    expect(page).to_have_url(re.compile("#/s/"))
    page.click("[aria-label='More: fork, copy, delete']")
    for offer in ("Fork", "Delete"):
        expect(page.get_by_role("menuitem", name=offer)).to_have_attribute("aria-disabled", "true")


@pytest.mark.core
def test_a_reload_restores_what_was_looked_at(visit: Visit, server: Scripted) -> None:
    reader = visit()
    page = reader.page
    begin(reader, "the budget")
    ended(page, "Turn 1 done")
    begin(reader, "something newer")
    ended(page, "Turn 1 done")
    page.click(".session:has-text('the budget') >> nth=0")
    page.locator(".entry[data-kind=tool] .seq").first.click()
    expect(page).to_have_url(re.compile(r"/\d+$"))
    address = page.url
    page.reload()
    expect(page.locator("h1")).to_have_text("the budget")
    expect(page.locator(".entry.target[data-kind=tool]")).to_be_in_viewport()
    expect(page).to_have_url(address)


def test_the_terminal_pane_follows_the_window(visit: Visit) -> None:
    reader = visit()
    reader.page.set_viewport_size({"width": 1900, "height": 900})
    reader.new_session()
    expect(reader.page.locator(".no-terminal")).to_be_visible()
    width = "document.querySelector('.p-terminal').getBoundingClientRect().width"
    wide = reader.page.evaluate(width)
    reader.page.set_viewport_size({"width": 1300, "height": 900})
    reader.page.wait_for_function(f"() => {width} < {wide} - 100")
    reader.page.set_viewport_size({"width": 1900, "height": 900})
    reader.page.wait_for_function(f"() => {width} === {wide}")


@pytest.mark.core
def test_the_journal_goes_on_after_the_servers_death(visit: Visit, tmp_path: Path) -> None:
    server = Scripted(tmp_path)
    server.start()
    try:
        reader = visit(server=server, alone=True)
        page = reader.page
        shell = server.shell("run", "claude", "until life-goes-on", "--quiet")
        page.click(".session:has-text('until life-goes-on')")
        expect(said(page)).to_have_text("I wait.")
        expect(page.get_by_text("Cancel turn")).to_be_enabled()  # the page knows of the turn, too
        server.kill()
        expect(page.locator(".banner")).to_contain_text("Disconnected")
        expect(said(page)).to_have_text("I wait.")
        expect(page.get_by_text("Cancel turn")).to_be_disabled()
        server.allow("life-goes-on")  # the turn lives in a process of its own
        assert shell.communicate()[0] == "It is there.\n"
        server.start()
        expect(page.locator(".banner")).to_have_count(0)
        ended(page, "Turn 1 done")
        expect(said(page)).to_have_text(["I wait.", "It is there."])
        page.fill("#next", "still there?")
        page.press("#next", "Control+Enter")
        ended(page, "You said: still there?")
    finally:
        server.stop()

"""What makes the page a comfort: small windows, texts of any script, drafts, bells, and readers who do not see it."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import FilePayload, Locator, Page, Route, expect

from browser.conftest import PATIENCE, Reader
from browser.seat import Seat
from waiting import wait_until

Visit = Callable[..., Reader]
expect.set_options(timeout=PATIENCE)

AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
TABLE = """
| Route | Requests | What it does when the connection is lost in the middle |
|:--|--:|:-:|
| `/api/sessions` | 1204 | Answers from the store, which is always there, and never waits for an agent |
| `/api/sessions/{id}/events?after=0` | 88 | Goes on where it was, since each event has a number of its own |

# שלום, עולם

- הקובץ `dispatch.py` תוקן
- [x] and this

```
def a_function_with_a_long_name(first_argument: int, second_argument: str, third_argument: list[int]) -> None: ...
```
"""
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ASK = {"tool": "shell", "input": {"command": "rm -rf build"}, "options": ["allow_once", "reject_once"]}


def steps(*all: dict[str, Any]) -> str:
    """A prompt whose agent does this."""
    return " ".join(
        f"[[{name}:{json.dumps(value) if isinstance(value, dict) else value}]]"
        for step in all
        for name, value in step.items()
    )


SHORT = "[[say:Here.]]"  # an agent that is not told what to do plays for seconds


def turn(reader: Reader, session: str, prompt: str, **more: Any) -> str:
    """A turn that is begun. Returns its id."""
    return str(reader.call("POST", f"/api/sessions/{session}/turns", {"prompt": prompt, **more})["id"])


def test_an_envelope_is_as_wide_as_the_journal_in_a_small_window(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    session = reader.new_session()
    turn(
        reader, session, steps({"say": "I begin."}, {"fail": {"kind": "limited", "message": "it has to wait a while"}})
    )
    envelope = page.locator(".envelope > div")
    expect(envelope).to_contain_text("It has to wait")
    for wide in (390, 640):  # a phone, and 1280 px at a zoom of 200 %
        page.set_viewport_size({"width": wide, "height": 700})
        page.wait_for_function(
            """wide => {
                const [envelope, prompt] = [".envelope > div", ".prompt"].map(
                    (one) => document.querySelector(one).getBoundingClientRect().width);
                return envelope === prompt && prompt > wide - 40;
            }""",
            arg=wide,
        )


def ended(page: Page, words: str) -> Locator:
    found = page.locator(".envelope", has_text=words)
    expect(found).to_be_visible()
    return found


def test_tables_keep_their_words_and_their_sides_and_texts_their_direction(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    page.set_viewport_size({"width": 1280, "height": 800})
    session = reader.new_session()
    turn(reader, session, "עזרה, please " + steps({"say": TABLE}))
    ended(page, "Turn 1 done")
    row = page.locator(".md tbody tr").first
    expect(row.locator("td").nth(1)).to_have_css("text-align", "-webkit-right")
    expect(page.locator(".md th").nth(2)).to_have_css("text-align", "-webkit-center")
    lines = """wanted => {
        const row = document.querySelector(".md tbody tr");
        const [, number, words] = [...row.cells].map((cell) => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            return range.getClientRects().length;
        });
        return {
            "the long cell beside the number takes some lines": row.getClientRects()[0].height > 40,
            "a number is not broken": number === 1,
            "nor is a column as narrow as its longest word": 2 <= words && words <= 6,
        }[wanted];
    }"""
    for wanted in (
        "the long cell beside the number takes some lines",
        "a number is not broken",
        "nor is a column as narrow as its longest word",
    ):
        page.wait_for_function(lines, arg=wanted)
    for there, direction in (
        (".prompt .literal", "rtl"),
        (".md h2", "rtl"),  # below the title of the page
        (".md > ul", "rtl"),
        (".md li code", "ltr"),
    ):
        expect(page.locator(there).first).to_have_css("direction", direction)
    page.locator("#next").fill("שלום")
    expect(page.locator("#next")).to_have_css("direction", "rtl")


def test_what_is_being_written_survives_a_reload(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    session = reader.new_session()
    page.fill("#next", f"half a thought {SHORT}")
    page.get_by_label("Access of this turn").select_option("write")
    page.set_input_files(".composer input[type=file]", {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"x"})
    expect(page.locator(".composer .attached .icon").first).to_be_visible()
    page.goto(f"{reader.server.url}/#/new")
    page.fill("#prompt", "another one")
    page.reload()
    expect(page.locator("#prompt")).to_have_value("another one")
    page.goto(f"{reader.server.url}/#/s/{session}")
    expect(page.locator("#next")).to_have_value(f"half a thought {SHORT}")
    expect(page.get_by_label("Access of this turn")).to_have_value("write")
    expect(page.locator(".composer .attached")).to_contain_text("notes.txt")
    page.press("#next", "Control+Enter")
    ended(page, "Turn 1 done")
    expect(page.locator(".prompt .attached")).to_have_text("notes.txt")
    page.reload()
    expect(page.locator(".prompt .attached")).to_have_text("notes.txt")
    expect(page.locator("#next")).to_have_value("")
    page.fill("#next", "not for others")
    page.click(".rail-menu button")
    page.get_by_role("menuitem", name="Log out").click()
    expect(page.get_by_text("You are not logged in")).to_be_visible()
    assert "not for others" not in page.evaluate("JSON.stringify(localStorage)")
    reader.enter(reader.server.link())  # for the tests that come after


def test_a_prompt_waits_for_its_files_and_does_not_go_without_one(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    session = reader.new_session()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    def next_held() -> Route:
        while not held:
            page.wait_for_timeout(20)
        return held.pop()

    def attach_and_send(name: str) -> Route:
        page.set_input_files(".composer input[type=file]", {"name": name, "mimeType": "text/plain", "buffer": b"x"})
        page.press("#next", "Control+Enter")
        expect(page.locator(".composer .btn.primary")).to_contain_text("Sending…")
        return next_held()

    page.route("**/api/uploads/*", hold)
    page.fill("#next", f"read it {SHORT}")
    attach_and_send("lost.txt").abort()
    expect(page.locator(".composer .chip.bad")).to_contain_text("lost.txt")
    expect(page.locator(".dock-note")).to_be_visible()
    expect(page.locator("#next")).to_have_value(f"read it {SHORT}")
    page.get_by_role("button", name="Remove lost.txt").click()
    attach_and_send("notes.txt").continue_()
    ended(page, "Turn 1 done")
    assert len(reader.call("GET", f"/api/sessions/{session}/turns")["items"]) == 1
    expect(page.locator(".prompt .attached")).to_have_text("notes.txt")


def icon(found: Locator) -> Locator:
    return found.locator(".icon use").first


def test_an_image_is_known_as_one_before_and_after_it_is_sent(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    session = reader.new_session()
    files: list[FilePayload] = [
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"x"},
        {"name": "shot", "mimeType": "image/png", "buffer": PIXEL},  # it is the content that counts
    ]
    page.set_input_files(".composer input[type=file]", files)
    page.fill("#next", f"look {SHORT}")
    for then in ("as it is written", "after a reload"):
        if then == "after a reload":
            page.reload()
            expect(page.locator("#next")).to_have_value(f"look {SHORT}")
        for name, shape in (("notes.txt", "#i-file"), ("shot", "#i-image")):
            expect(icon(page.locator(".composer .attached li", has_text=name))).to_have_attribute("href", shape)
    expect(page.locator(".composer .btn.primary")).to_have_attribute("aria-disabled", "false")  # it is connected
    page.press("#next", "Control+Enter")
    ended(page, "Turn 1 done")
    for then in ("as it was sent", "after a reload"):
        if then == "after a reload":
            page.reload()
        for name, shape in (("notes.txt", "#i-file"), ("shot", "#i-image")):
            expect(icon(page.locator(".prompt .attached li", has_text=name))).to_have_attribute("href", shape)
    sent = reader.call("GET", f"/api/sessions/{session}/turns")["items"][0]["attachments"]
    assert sent == [{"name": "notes.txt", "image": False}, {"name": "shot", "image": True}]


def test_who_cancels_or_denies_is_told_so_and_turns_keep_their_numbers(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    session = reader.new_session()
    began = steps({"run": "ls /nowhere"}, {"say": "I go on."}, {"run": "sleep 1000"})
    first = turn(reader, session, began, transport="dialog")
    expect(page.locator(".tool", has_text="sleep 1000")).to_be_visible()
    second = turn(reader, session, "taken back", wait=True)
    reader.call("POST", f"/api/turns/{second}/cancel", {})
    reader.call("POST", f"/api/turns/{first}/cancel", {})
    ended(page, "Turn 1 cancelled")
    marks = page.locator(".tool .facts .state")
    expect(marks).to_have_count(2)
    for number, state in enumerate(("failed", "cancelled")):
        expect(marks.nth(number)).to_have_attribute("data-state", state)
    turn(reader, session, steps({"ask": ASK}, {"say": "So be it."}), transport="dialog")
    card = page.locator(".journal [data-ask][data-open]")
    expect(page.locator("[data-announcer]")).to_have_text(re.compile("^claude asks in .*: rm -rf build"))
    card.get_by_role("button", name="Give a reason").click()
    card.get_by_label("Reason").fill("use make clean")
    page.keyboard.press("Enter")
    expect(page.locator("[data-answer] .said")).to_have_text("use make clean")
    ended(page, "Turn 3 done")
    expect(page.locator("[data-announcer]")).to_have_text("")
    expect(page.locator(".prompt header").last).to_contain_text("Turn 3")
    tabs = page.get_by_role("tablist").get_by_role("tab")
    expect(page.get_by_role("tab")).to_have_text([re.compile("turn 1"), re.compile("turn 3")])
    for number, state in enumerate(("cancelled", "done")):  # the row of the terminal may come after the turn's end
        expect(page.get_by_role("tab").nth(number).locator(".state")).to_have_attribute("data-state", state)
    expect(tabs).to_have_count(0)  # owned, not held: there are other controls among them
    expect(page.get_by_role("tablist")).to_have_attribute("aria-owns", re.compile(r"^\S+ \S+$"))


def test_a_bell_is_seen(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    reader.new_session()
    seat = Seat(reader)
    first = seat.open_shell()
    bell = page.locator(".lease:visible .bell")
    seat.type("printf 'ri%s\\a' ng")
    expect(bell).to_be_visible()
    seat.open_shell()  # before it was looked at for long
    expect(bell).to_have_count(0)
    expect(page.locator(f"#tab-{first} .bell")).to_be_visible()
    expect(page).to_have_title(re.compile("^Bell · "))
    page.click(f"#tab-{first}")
    expect(bell).to_be_visible()
    expect(page.locator(".bell")).to_have_count(0)
    expect(page).not_to_have_title(re.compile("Bell"))


def test_a_bell_of_a_session_that_is_not_open_is_seen_in_its_row(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    elsewhere = reader.new_session()
    reader.call("POST", "/api/terminals", {"session": elsewhere, "argv": ["sh", "-c", "read go; printf '\\a'; cat"]})
    (terminal,) = [t["id"] for t in reader.call("GET", "/api/terminals")["items"] if t["session"] == elsewhere]
    reader.new_session()
    reader.call("POST", f"/api/terminals/{terminal}/input", {"message": {"kind": "text", "text": "go\n"}, "take": True})
    bell = page.locator(f".session[href$='{elsewhere}'] .bell")
    expect(bell).to_be_visible()
    expect(page).to_have_title(re.compile("^Bell · "))
    page.click(f".session[href$='{elsewhere}']")
    expect(bell).to_have_count(0)
    expect(page).not_to_have_title(re.compile("Bell"))


def faults(page: Page, within: str = "html", rules: tuple[str, ...] = ()) -> list[str]:
    """What axe finds on the page as it is shown: rule, and where. The colours of a program are its own.

    All of the page and by every rule, unless a part or some rules are named.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    return list(
        page.evaluate(
            """async ([within, rules]) => (await axe.run({include: [within], exclude: [".xterm-rows"]}, {
                    resultTypes: ["violations"],
                    preload: false, // of style sheets and films, for rules that are off
                    // a rule that is off unless asked for
                    ...(rules.length ? {runOnly: rules} : {rules: {"target-size": {enabled: true}}}),
                })).violations
                .flatMap(({id, nodes}) => nodes.map(({target}) => `${id}: ${target.join(" ")}`))""",
            [within, rules],
        )
    )


def test_axe_finds_nothing(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{reader.server.url}/#/new")  # where no turn is drawn while it runs
    body = {"agent": "claude", "folder": str(reader.server.folder)}
    session = reader.call("POST", "/api/sessions", body)["id"]
    for _ in range(4):  # more than there are tabs
        turn(reader, session, "[[say:again]]", wait=True)
    turn(reader, session, steps({"say": TABLE}, {"run": "ls /nowhere"}, {"fail": "limited"}), wait=True)
    turn(reader, session, steps({"ask": ASK}), transport="dialog", wait=True)
    wait_until(lambda: reader.call("GET", f"/api/sessions/{session}")["state"] == "asking")
    page.goto(f"{reader.server.url}/#/s/{session}")
    ended(page, "Turn 5 failed")
    expect(page.locator(".ask .btn.primary")).to_be_enabled()
    for wide, scheme, rules in (
        (1280, "dark", ()),
        (1280, "light", ("color-contrast", "link-in-text-block")),  # the same page in other colours
        (720, "light", ()),
        (390, "dark", ()),
    ):
        page.set_viewport_size({"width": wide, "height": 800})
        page.emulate_media(color_scheme=scheme)
        assert faults(page, rules=rules) == [], (wide, scheme)
    page.set_viewport_size({"width": 1280, "height": 800})
    for view, there in (("grid", ".tile canvas"), ("new", ".stall"), (f"s/{session}", ".ask")):
        page.evaluate("view => (location.hash = `#/${view}`)", view)
        expect(page.locator(there).first).to_be_visible()
        if view in ("grid", "new"):  # the session was looked at above
            assert faults(page) == [], view
        page.keyboard.press("Tab")
        page.locator(".skip").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#content:focus, #content :focus")).to_have_count(1)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert faults(page, within="dialog[open]") == []
    page.keyboard.press("Escape")

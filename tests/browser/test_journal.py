"""Journals of any length, read while they grow; and many windows of one browser."""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Request, Route, expect

from browser.conftest import PATIENCE, Reader, Server
from waiting import stop

Visit = Callable[..., Reader]
expect.set_options(timeout=PATIENCE)

MANY = 1100  # more than are fetched at once
STREAM = {"stream": {"text": "word " * 20_000, "delay": 0.02}}
REPLIES: list[dict[str, Any]] = [
    {"match": "stream on", "steps": [{"say": "More than fits.\n\n" * 80}, STREAM]},
    {"match": "stream", "steps": [STREAM]},
    {"match": "many", "steps": [{"say": f"line {n}\n\nand its end"} for n in range(MANY)]},
    {"match": "plant", "steps": [{"write": {"path": ".mcp.json", "content": "{}"}}, {"say": "planted"}]},
    {"steps": [{"say": "You said: {prompt}"}]},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base: Path = tmp_path_factory.mktemp("server")
    server = Server(base)
    (base / "scenario.json").write_text(json.dumps({"reply": REPLIES}))
    server.environ["OSTLER_SCENARIO"] = str(base / "scenario.json")
    server.start()
    yield server
    server.stop()


def begin(reader: Reader, prompt: str) -> str:
    """A session with this turn begun, not shown. Returns the session's id."""
    body = {"agent": "claude", "folder": str(reader.server.folder)}
    id = str(reader.call("POST", "/api/sessions", body)["id"])
    reader.call("POST", f"/api/sessions/{id}/turns", {"prompt": prompt})
    return id


def ended(page: Page, words: str) -> None:
    expect(page.locator(".envelope", has_text=words)).to_be_visible()


# The first entry in view: what it says, and how far from the upper edge it stands.
TOP_ENTRY = """() => {
    const box = document.querySelector(".journal"), edge = box.getBoundingClientRect().top;
    const one = [...box.querySelectorAll(".placed")].find((one) => one.getBoundingClientRect().bottom > edge + 1);
    return one && `${one.dataset.key} ${one.innerText} ${Math.round(one.getBoundingClientRect().top - edge)}`;
}"""


@pytest.mark.core
def test_a_journal_is_drawn_while_it_grows(visit: Visit) -> None:
    """However fast an agent writes: whatever the page has read, there is more when it has been drawn."""
    reader = visit()
    page = reader.page
    id = begin(reader, "stream for ever")
    path = f"/api/sessions/{id}/events"

    def once_it_has_grown(route: Route) -> None:
        after = parse_qs(urlsplit(route.request.url).query).get("after", ["0"])[0]
        while not page.request.get(f"{reader.server.url}{path}?after={after}&limit=1").json()["items"]:
            pass
        route.continue_()

    page.goto("about:blank")  # it may have been shown by itself
    page.route(f"**{path}?*", once_it_has_grown)
    page.goto(f"{reader.server.url}/#/s/{id}")
    text = page.locator(".entry[data-kind=text] > div")
    expect(text).to_contain_text("word word")
    seen = len(text.inner_text())
    page.wait_for_function("n => document.querySelector('.entry[data-kind=text] > div').innerText.length > n", arg=seen)
    assert reader.call("GET", f"/api/sessions/{id}")["turn"]["state"] == "running"
    page.click("text=Cancel turn")
    ended(page, "Turn 1 cancelled")


def test_who_scrolls_up_while_an_agent_writes_is_not_thrown_back(visit: Visit) -> None:
    """A movement is told a frame later than it is done, and what is written may be drawn in between."""
    reader = visit()
    page = reader.page
    id = begin(reader, "stream on and on")
    page.goto(f"{reader.server.url}/#/s/{id}")
    page.wait_for_function("() => document.querySelector('.journal')?.scrollTop > 600")
    page.evaluate("""() => new Promise((done) => {
        const box = document.querySelector(".journal");
        new MutationObserver((_, watch) => {
            watch.disconnect();
            box.scrollTop = 100;
            requestAnimationFrame(() => requestAnimationFrame(done));
        }).observe(box, {subtree: true, childList: true, characterData: true});
    })""")
    expect(page.locator(".to-end")).to_be_visible()
    page.wait_for_function("() => document.querySelector('.journal').scrollTop < 300")
    page.click(".to-end")
    expect(page.locator(".to-end")).to_have_count(0)
    page.click("text=Cancel turn")
    ended(page, "Turn 1 cancelled")


def test_a_window_that_changes_its_size_still_follows_what_is_written(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    id = begin(reader, "stream on and on")
    page.goto(f"{reader.server.url}/#/s/{id}")
    page.wait_for_function("() => document.querySelector('.journal')?.scrollTop > 600")
    at_end = """() => {
        const box = document.querySelector(".journal");
        return box.scrollHeight - box.scrollTop - box.clientHeight < 5;
    }"""
    script = """size => new Promise((done) => {
        const box = document.querySelector(".journal");
        new MutationObserver((_, watch) => {
            watch.disconnect();
            box.style.cssText = `flex: none; height: ${size}px`;
            box.dispatchEvent(new Event("scroll"));  // that of the last drawing, seen after the change of size
            requestAnimationFrame(() => requestAnimationFrame(done));
        }).observe(box, {subtree: true, childList: true, characterData: true});
    })"""
    for size in (300, 500, 200):
        page.evaluate(script, size)
        page.wait_for_function(at_end)
        expect(page.locator(".to-end")).to_have_count(0)
    page.evaluate("document.querySelector('.journal').style.cssText = ''")
    for wide, high in ((390, 844), (720, 900), (1280, 800), (1920, 1080), (900, 500)):
        page.set_viewport_size({"width": wide, "height": high})
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.wait_for_function(at_end)
        expect(page.locator(".to-end")).to_have_count(0)
    page.click("text=Cancel turn")
    ended(page, "Turn 1 cancelled")


def test_the_newest_part_comes_first_and_older_ones_when_they_are_wanted(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    page.goto(f"{reader.server.url}/#/new")  # where nothing of it is drawn while it is said
    id = begin(reader, "say many things")
    while page.request.get(f"{reader.server.url}/api/sessions/{id}").json()["state"] != "idle":
        page.wait_for_timeout(100)
    parts: list[Request] = []
    page.on("request", lambda request: parts.append(request) if f"{id}/events?" in request.url else None)
    page.goto("about:blank")
    page.goto(f"{reader.server.url}/#/s/{id}")
    ended(page, "Turn 1 done")
    expect(page.locator(".entry[data-kind=text]").last).to_contain_text(f"line {MANY - 1}")
    assert ["limit=1000" in part.url for part in parts] == [True], "no more than what is drawn first"

    # What is read stays where it is while the older part comes in.
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(f"**{id}/events?*", hold)
    while not held:
        page.evaluate("document.querySelector('.journal').scrollTop = 0")
        page.wait_for_timeout(50)
    expect(page.get_by_text("Loading earlier events…")).to_be_visible()
    page.evaluate("document.querySelector('.journal').scrollTop = 400")
    before = page.evaluate(TOP_ENTRY)
    held[0].continue_()
    expect(page.get_by_text("Loading earlier events…")).to_have_count(0)
    page.wait_for_function("() => document.querySelector('.journal').scrollTop > 600")
    page.wait_for_function(f"before => ({TOP_ENTRY})() === before", arg=before)
    page.unroute(f"**{id}/events?*")

    # By key to the turn's beginning, and back to the end.
    page.keyboard.press("e")
    expect(page.locator(".envelope")).to_be_in_viewport()
    page.keyboard.press("Shift+ArrowUp")
    expect(page.locator(".prompt")).to_be_in_viewport()
    expect(page.locator(".earlier")).to_have_count(0)

    # A link leads to an event of the oldest part.
    page.goto("about:blank")
    page.goto(f"{reader.server.url}/#/s/{id}/7")
    expect(page.locator(".placed.target")).to_be_in_viewport()
    expect(page.locator(".placed.target .seq")).to_have_text("7")


def test_however_many_tabs_there_are_what_one_does_goes_out(visit: Visit) -> None:
    """A browser has six connections for a host, in all of its tabs together."""
    reader = visit()
    id = begin(reader, "hello")
    tabs = [reader.page, *(reader.page.context.new_page() for _ in range(2))]
    for tab in tabs:
        tab.goto(f"{reader.server.url}/#/s/{id}")
        expect(tab.locator(".envelope")).to_have_count(1)
        expect(tab.locator(".live-dot:not(.off)")).to_have_count(1)
    page = tabs[-1]
    page.fill("#next", "from the last one")
    page.press("#next", "Control+Enter")
    for tab in tabs:
        ended(tab, "You said: from the last one")
    for tab in tabs[1:]:
        tab.close()


@pytest.mark.core
def test_what_is_typed_while_a_prompt_is_on_its_way_is_not_lost(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    reader.new_session()
    held: list[Route] = []
    page.route("**/turns", lambda route: held.append(route) if route.request.method == "POST" else route.continue_())
    page.fill("#next", "the first")
    page.press("#next", "Control+Enter")
    while not held:
        page.wait_for_timeout(20)
    page.press("#next", "End")
    page.type("#next", " and on")
    held[0].continue_()
    ended(page, "You said: the first")
    expect(page.locator("#next")).to_have_value("and on")


def test_what_cannot_go_out_is_told_within_seconds(visit: Visit) -> None:
    reader = visit("Timeless")
    page = reader.page
    page.clock.install()
    reader.new_session()
    held: list[Route] = []
    page.route("**/turns", lambda route: held.append(route) if route.request.method == "POST" else route.continue_())
    page.fill("#next", "is anybody there?")
    page.press("#next", "Control+Enter")
    expect(page.locator(".composer")).to_contain_text("Sending…")
    while not held:
        page.wait_for_timeout(20)
    page.clock.fast_forward(10_000)
    expect(page.locator(".dock-note")).to_contain_text("The server has not answered for 10 seconds")
    expect(page.locator("#next")).to_have_value("is anybody there?")
    page.unroute("**/turns")
    # To the turned clock the event stream has been silent, too: until it has come again, nothing is sent.
    while page.input_value("#next"):
        page.press("#next", "Control+Enter")
        page.wait_for_timeout(20)
    ended(page, "You said: is anybody there?")
    assert held[0].request.headers["idempotency-key"], "so that it is not started twice"


def test_a_prompt_goes_out_while_agents_are_still_looked_for(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/agents*", hold)
    page.reload()
    id = reader.new_session()
    page.fill("#next", "hello")
    page.press("#next", "Control+Enter")
    ended(page, "You said: hello")
    assert held and reader.call("GET", f"/api/sessions/{id}")["turn"]["transport"] == "dialog"


def test_a_server_that_hangs_is_noticed_and_comes_back(visit: Visit, server: Server) -> None:
    page = visit("Timeless").page
    page.clock.install()
    page.reload()
    expect(page.locator(".live-dot:not(.off)")).to_have_count(1)
    assert server._process
    stop(server._process.pid)
    try:
        page.clock.fast_forward(9_000)
        page.clock.fast_forward(1_000)
        expect(page.locator(".banner")).to_contain_text("Disconnected")
    finally:
        os.kill(server._process.pid, signal.SIGCONT)
    expect(page.locator(".banner")).to_have_count(0)


def test_what_a_turn_planted_stands_there_and_a_shield_at_its_access(visit: Visit) -> None:
    reader = visit()
    body = {"agent": "claude", "folder": str(reader.server.folder), "access": "write"}
    id = str(reader.call("POST", "/api/sessions", body)["id"])
    reader.call("POST", f"/api/sessions/{id}/turns", {"prompt": "plant", "access": "write"})
    reader.page.goto(f"{reader.server.url}/#/s/{id}")
    planted = reader.page.locator(".envelope .planted")
    expect(planted).to_contain_text(".mcp.json (new)")
    colour = "one => getComputedStyle(one).color"
    assert planted.evaluate(colour) != reader.page.locator(".envelope .says").evaluate(colour)
    chip = reader.page.locator(".row-2 .chip", has_text="write")
    agents = {each["name"]: each for each in reader.call("GET", "/api/agents")["items"]}
    walled = agents["script"]["kept"]["write"]["by"] == "wall"
    expect(chip).to_have_attribute("title", re.compile("a wall in the kernel" if walled else "own flags alone"))
    expect(chip.locator("use")).to_have_attribute("href", "#i-shield" if walled else "#i-edit")

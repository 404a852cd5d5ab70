"""Turns in dialogs, as the page shows them: words on the way, the terminals of tool calls, asks on the time line."""

import json
import re
import sys
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from browser.conftest import PATIENCE, Reader, Server
from browser.seat import Seat
from browser.test_asks import Asked, asking

expect.set_options(timeout=PATIENCE)
ACP = [sys.executable, "-P", "-m", "ostler.testing.agent", "--acp"]


@pytest.fixture(scope="module")
def acp_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One whose agent `mine` speaks ACP, and has ostler run its commands."""
    server = Server(tmp_path_factory.mktemp("acp"))
    del server.environ["OSTLER_ONLY"]
    config = server.home / ".config/ostler/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'loose = ["mine"]\n[acp]\nmine = {json.dumps(ACP)}\n')  # JSON's lists are TOML's
    server.start()
    yield server
    server.stop()


def test_the_composer_steers_the_running_turn(visit: Callable[..., Reader]) -> None:
    asked = Asked(visit(), "[[say:It is begun.]] [[hear]] [[hear]]", typed=True)
    journal, field = asked.page.locator(".journal"), asked.page.locator("#next")
    expect(journal).to_contain_text("It is begun.")
    field.fill("leave the tests alone")
    asked.page.get_by_role("button", name="Steer").click()
    expect(field).to_have_value("")
    expect(journal).to_contain_text("steered by You: leave the tests alone")
    expect(journal.locator(".md", has_text="leave the tests alone")).to_have_count(1)
    field.fill("and **hurry**")
    field.press("Control+Shift+Enter")
    expect(journal.locator(".md strong", has_text="hurry")).to_have_count(1)
    asked.ended()
    expect(asked.page.get_by_role("button", name="Steer")).to_have_count(0)
    lease = asked.page.locator(".terminal-view:not([hidden]) .lease")
    expect(lease).to_contain_text("Ended, exit 0")


def test_an_agent_that_nobody_plays_is_steered_too(visit: Callable[..., Reader], acp_server: Server) -> None:
    asked = Asked(visit(server=acp_server), "[[say:It is begun.]] [[hear]]", agent="script")
    asked.page.locator("#next").fill("leave the tests alone")
    asked.page.get_by_role("button", name="Steer").click()
    expect(asked.page.locator(".journal .md", has_text="leave the tests alone")).to_have_count(1)
    asked.ended()


@pytest.mark.core
def test_a_tool_call_leads_to_its_terminal(visit: Callable[..., Reader], acp_server: Server) -> None:
    reader = visit(server=acp_server)
    command = 'echo "$((6 * 7)) oats"; read horse; echo "and $horse"'
    asked = Asked(reader, f"[[run:{command}]] [[say:It is over.]]", access="full", agent="mine")
    asked.button("Allow").click()
    chip = asked.page.locator(".tool .to-term.live")
    expect(chip).to_have_attribute("aria-label", "Terminal sh, live")
    expect(asked.page.locator(".p-journal .chip", has_text="dialog")).to_have_count(1)
    expect(asked.page.get_by_role("button", name="Steer")).to_have_count(0)  # it cannot be told more
    row = asked.page.locator(f".session[href*='{asked.session}']")
    expect(row.locator(".now")).to_contain_text("oats")  # it no longer asks
    asked.page.get_by_role("tab", name="turn 1").click()
    chip.focus()
    chip.press("Enter")
    seat = Seat(reader)
    seat.wait("42 oats")
    expect(asked.page.get_by_role("tab", name="sh")).to_have_attribute("aria-selected", "true")
    assert reader.call("GET", f"/api/terminals/{seat.id}")["source"] == "pty"
    seat.focus()  # nobody has the keyboard: typing takes it
    seat.run("palomino", "and palomino", key_by_key=True)
    asked.ended()
    events = reader.call("GET", f"/api/sessions/{asked.session}/events")["items"]
    (tool,) = [event for event in events if event["kind"] == "tool_ended"]
    assert "and palomino" in tool["output"]  # as the agent was told
    expect(chip).to_have_count(0)
    expect(asked.page.locator(".tool .to-term")).to_have_attribute("title", "Its terminal: ended, exit 0")
    expect(asked.page.locator(".entry[data-kind=terminal]")).to_have_count(0)
    asked.page.reload()
    expect(asked.page.locator(".tool .to-term")).to_have_count(1)


def test_the_time_line_has_the_asks(visit: Callable[..., Reader]) -> None:
    asked = Asked(visit(), asking("one.txt") + asking("two.txt") + asking("three.txt"))
    marks = asked.page.locator(".reel:visible .track i[data-kind=ask]")
    for number, (option, outcome) in enumerate((("Allow", "allowed"), ("Deny", "denied"))):
        expect(marks).to_have_count(number + 1)
        expect(marks.nth(number)).to_have_attribute("data-outcome", "open")
        asked.button(option).click()
        expect(marks.nth(number)).to_have_attribute("data-outcome", outcome)
    expect(marks.nth(0)).to_have_attribute(
        "title", re.compile("asked to run a command: touch one.txt. Allowed by you$")
    )
    expect(marks).to_have_count(3)
    terminal = asked.page.locator(".terminal-view:not([hidden]) .term").first.get_attribute("data-terminal")
    asked.page.goto(f"{asked.reader.server.url}/#/t/{terminal}")
    expect(asked.page.locator(".full-view .track i[data-kind=ask]")).to_have_count(3)
    asked.reader.call("POST", f"/api/turns/{asked.turn()['id']}/cancel", {})
    expect(marks.nth(2)).to_have_attribute("data-outcome", "dropped")

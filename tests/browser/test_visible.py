"""Agents in their own screens, in the page: the main pane, taken over and handed back, moved to another transport."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import PATIENCE, Reader
from browser.seat import Seat
from browser.test_comfort import faults
from work.panes.own_tmux import own_tmux, tmux
from work.panes.own_tmux import panes as tmux_panes

expect.set_options(timeout=PATIENCE)


class Shown:
    """A session, whose page a person has in front."""

    def __init__(self, reader: Reader, transport: str | None = "pty") -> None:
        self.reader, self.page, self.seat = reader, reader.page, Seat(reader)
        body = {"agent": "claude", "folder": str(reader.server.folder), "transport": transport}
        self.id = str(reader.call("POST", "/api/sessions", body)["id"])
        self.page.goto(f"{reader.server.url}/#/s/{self.id}")
        self.page.wait_for_selector("#next")
        self.journal = self.page.locator(".journal")

    def send(self, prompt: str, button: str = "Send") -> None:
        self.page.locator("#next").fill(prompt)
        self.page.get_by_role("button", name=button).click()
        expect(self.page.locator("#next")).to_have_value("")

    def row(self) -> Any:
        return self.reader.call("GET", f"/api/sessions/{self.id}")

    def move(self, to: str) -> None:
        self.page.get_by_label("Transport of this session").select_option(to)


@pytest.fixture
def shown(visit: Callable[..., Reader]) -> Shown:
    return Shown(visit())


def box(one: Locator) -> Any:
    return one.bounding_box()


def panes(page: Page) -> tuple[Any, Any]:
    """Where the terminal and the journal are."""
    return box(page.locator(".p-terminal")), box(page.locator(".p-journal"))


@pytest.mark.core
def test_a_person_takes_over_and_hands_back(shown: Shown) -> None:
    page, seat = shown.page, shown.seat
    shown.send("one [[say:Here.]]")
    expect(shown.journal.locator(".md", has_text="Here.")).to_have_count(1)
    terminal, journal = panes(page)
    assert terminal["x"] < journal["x"] and terminal["width"] > journal["width"]  # the screen is the main thing
    seat.wait_lease("nobody")
    page.get_by_role("button", name="Take over").click()
    seat.wait_lease("you")
    expect(page.locator(".composer-held")).to_contain_text("You have the keyboard of claude")
    assert faults(page) == []
    seat.focus()
    page.keyboard.insert_text("by hand [[say:Mine.]]")
    seat.wait("❯ by hand [[say:Mine.]]")  # an Enter that came with the words would be a line of a paste
    page.keyboard.press("Enter")
    seat.wait("● Mine.")
    shown.send("two [[history]]", "Queue")  # automation waits
    expect(page.locator(".prompt.waiting")).to_contain_text("Queued")
    expect(page.locator(".lease:visible")).to_contain_text("ostler waits")
    assert shown.row()["state"] == "queued"
    page.get_by_role("button", name="Hand back").click()
    expect(shown.journal.locator(".md", has_text="by hand")).to_have_count(1)  # the conversation has both
    expect(shown.journal.locator(".envelope")).to_have_count(2)
    expect(page.locator(".composer-held")).to_have_count(0)
    shown.send("three [[say:Once more.]]")
    expect(shown.journal.locator(".md", has_text="Once more.")).to_have_count(1)


def test_somebody_else_has_the_keyboard(shown: Shown, visit: Callable[..., Reader]) -> None:
    shown.send("one [[say:Here.]]")
    expect(shown.journal.locator(".envelope")).to_have_count(1)
    eve = visit("Eve", "type")
    eve.page.goto(shown.page.url)
    eve.page.get_by_role("button", name="Take over").click()
    Seat(eve).wait_lease("you")
    expect(shown.page.locator(".composer-held")).to_contain_text("Eve has the keyboard of claude")
    shown.seat.wait_lease("person")
    shown.page.get_by_role("button", name="Take over").click()
    shown.seat.wait_lease("you")
    Seat(eve).wait_lease("person")


def test_a_session_is_moved(visit: Callable[..., Reader]) -> None:
    shown = Shown(visit(), transport=None)
    page = shown.page
    shown.send("one [[say:Here.]]")
    expect(shown.journal.locator(".envelope")).to_have_count(1)
    terminal, journal = panes(page)
    assert journal["x"] < terminal["x"]
    shown.move("pty")
    expect(shown.journal.locator(".line", has_text="moved to pty")).to_have_count(1)
    expect(page.locator(".panes.visible")).to_have_count(1)
    shown.send("two [[history]]")
    expect(shown.journal.locator(".md", has_text="one [[say:Here.]]")).to_have_count(1)
    shown.seat.wait("two [[history]]")
    expect(shown.journal.locator(".envelope")).to_have_count(2)  # else it is asked what becomes of the turn
    shown.move("pipe")
    expect(shown.journal.locator(".line", has_text="moved to pipe")).to_have_count(1)
    expect(page.locator(".panes.visible")).to_have_count(0)
    page.get_by_label("Transport of this turn").select_option("dialog")  # of this turn alone
    shown.send("three [[say:Asked.]]")
    expect(shown.journal.locator(".envelope")).to_have_count(3)
    assert (shown.row()["transport"], shown.row()["turn"]["transport"]) == ("pipe", "dialog")
    expect(page.get_by_label("Transport of this turn")).to_have_value("pipe")


def test_a_busy_session_moves_when_it_is_over_or_at_once(visit: Callable[..., Reader]) -> None:
    shown = Shown(visit(), transport=None)
    page = shown.page
    page.get_by_label("Transport of this turn").select_option("pty")  # of this turn alone
    shown.send("one [[say:Begun.]] [[never_end]]")
    expect(page.locator(".lease:visible")).to_contain_text("claude is working")
    expect(shown.journal).to_contain_text("Begun.")
    shown.move("pty")
    ask = page.get_by_role("dialog", name="Move to pty?")
    expect(ask).to_contain_text("A turn is running in session")
    ask.get_by_role("button", name="When it ends").click()
    expect(page.locator(".chip.moving")).to_contain_text("pty next")
    shown.move("pipe")
    page.get_by_role("dialog", name="Move to pipe?").get_by_role("button", name="Interrupt").click()
    expect(page.locator(".chip.moving")).to_have_count(0)
    expect(page.get_by_label("Transport of this session")).to_have_value("pipe")
    assert shown.row()["turn"]["outcome"] == "cancelled"


def test_a_pane_of_tmux_is_shown_and_typed_into(visit: Callable[..., Reader]) -> None:
    reader = visit()
    with own_tmux(reader.server.state):
        shown = Shown(reader, transport="tmux")
        shown.send("one [[say:Here.]]")
        expect(shown.journal.locator(".md", has_text="Here.")).to_have_count(1)
        shown.seat.wait("● Here.")
        shown.page.get_by_role("button", name="Take over").click()
        shown.seat.wait_lease("you")
        shown.seat.focus()
        shown.page.keyboard.type("by hand [[say:Mine.]]")
        shown.seat.wait("❯ by hand [[say:Mine.]]")  # an Enter that came with the words would be a line of a paste
        shown.page.keyboard.press("Enter")
        shown.seat.wait("● Mine.")
        assert "● Mine." in tmux(reader.server.state, "capture-pane", "-p", "-t", "ostler:").stdout
        shown.page.get_by_role("button", name="Hand back").click()
        shown.seat.wait_lease("nobody")
        reader.call("POST", f"/api/sessions/{shown.id}/close")
        assert tmux_panes(reader.server.state) == []


def test_on_a_phone_screen_and_journal_are_tabs(visit: Callable[..., Reader]) -> None:
    reader = visit()
    page = reader.page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{reader.server.url}/#/new")
    page.locator("#folder").fill(str(reader.server.folder))
    page.get_by_role("button", name="claude", exact=True).click()
    page.get_by_role("button", name="pty", exact=True).click()
    page.locator("#prompt").fill("one [[say:Here.]]")
    page.get_by_role("button", name="Start turn").click()
    expect(page.locator(".p-terminal")).to_be_visible()
    expect(page.locator(".p-journal")).to_be_hidden()
    Seat(reader).wait("Here.")
    expect(page.get_by_role("button", name="Take over")).to_be_visible()
    page.get_by_role("link", name="Journal").click()
    expect(page.locator(".journal .md", has_text="Here.")).to_be_visible()
    expect(page.get_by_label("Transport of this session")).to_have_value("pty")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

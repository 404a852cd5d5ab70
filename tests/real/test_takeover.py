"""A person takes over the screen of a real CLI in a real browser, and hands it back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browser.conftest import Reader, Server, chromium, open_window, playwright
from browser.test_visible import Shown
from real.test_tui import visible
from real.yard import Yard

__all__ = ["chromium", "playwright", "visible"]
pytestmark = [pytest.mark.timeout(300)]


@pytest.fixture
def reader(visible: Yard, chromium: Browser, tmp_path: Path) -> Iterator[Reader]:
    with in_front_of(visible, chromium, tmp_path) as reader:
        yield reader


@contextmanager
def in_front_of(yard: Yard, chromium: Browser, base: Path) -> Iterator[Reader]:
    """Somebody in front of the page of `ostler up`, which has the yard's HOME and folder."""
    server = Server(base)
    server.folder, server.environ = yard.folder, yard.env
    try:
        server.start()
        reader = open_window(chromium, server)
        yield reader
        reader.page.context.close()
    finally:
        server.stop()
    assert reader.errors == []


@pytest.mark.parametrize("agent", ["claude"])
@pytest.mark.core
def test_a_person_types_while_automation_waits_and_the_next_turns_work(visible: Yard, reader: Reader) -> None:
    shown = Shown(reader)
    page, seat = shown.page, shown.seat
    shown.send("one [[say:Here.]]")
    expect(shown.journal.locator(".md", has_text="Here.")).to_have_count(1)
    seat.wait_lease("nobody")
    page.get_by_role("button", name="Take over").click()
    seat.wait_lease("you")
    seat.focus()
    page.keyboard.type("by hand [[say:Mine.]]")
    seat.wait("by hand [[say:Mine.]]")  # an Enter that came with the words would be a line of a paste
    page.keyboard.press("Enter")
    seat.wait("● Mine.")
    shown.send("two [[say:Later.]]", "Queue")
    expect(page.locator(".prompt.waiting")).to_contain_text("Queued")
    expect(page.locator(".lease:visible")).to_contain_text("ostler waits")
    assert shown.row()["state"] == "queued"
    assert "● Later." not in seat.text() and not asked(visible, "two [[say:Later.]]")
    page.get_by_role("button", name="Hand back").click()
    expect(shown.journal.locator(".md", has_text="Later.")).to_have_count(1)
    [two] = asked(visible, "two [[say:Later.]]")
    assert "one [[say:Here.]]" in two and "by hand [[say:Mine.]]" in two  # the conversation has both
    expect(page.locator(".composer-held")).to_have_count(0)
    shown.send("three [[say:Once more.]]")
    expect(shown.journal.locator(".md", has_text="Once more.")).to_have_count(1)
    expect(shown.journal.locator(".envelope")).to_have_count(3)
    assert len(reader.call("GET", "/api/terminals")["items"]) == 1  # all in one program


def asked(yard: Yard, prompt: str) -> list[str]:
    """What the model was sent when it was asked that."""
    return [x.text for x in yard.model.asked if x.user.strip().endswith(prompt)]

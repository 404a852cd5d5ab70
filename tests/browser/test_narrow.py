"""Phones and laptops: what must fit, and what comes late because a phone had no connection just then."""

from collections.abc import Callable

from playwright.sync_api import expect

from browser.conftest import PATIENCE, Reader

Visit = Callable[..., Reader]
expect.set_options(timeout=PATIENCE)


def test_a_part_that_could_not_be_fetched_comes_when_the_phone_is_online_again(visit: Visit) -> None:
    """What is missing is said in words, where it belongs, and only there: on a phone one pane is seen at a time."""
    reader = visit(alone=True, viewport={"width": 390, "height": 844})
    page = reader.page
    page.route("**/assets/TerminalPane*", lambda route: route.abort())
    page.route("**/assets/viewer*", lambda route: route.abort())
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

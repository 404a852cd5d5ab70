"""How one gets in: a login link that is opened where the page already is."""

from collections.abc import Callable

from playwright.sync_api import Browser, expect

from browser.conftest import PATIENCE, Reader, Server

Visit = Callable[..., Reader]
expect.set_options(timeout=PATIENCE)


def test_a_link_pasted_into_the_tab_that_asks_for_one_logs_in(chromium: Browser, server: Server) -> None:
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


def test_a_spent_link_pasted_there_is_called_invalid(chromium: Browser, server: Server, visit: Visit) -> None:
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


def test_a_link_with_more_rights_counts_in_a_window_that_could_only_look(visit: Visit, server: Server) -> None:
    page = visit("Ada", "view").page
    expect(page.get_by_text("view only").first).to_be_visible()
    page.evaluate("link => { location.href = link; }", server.link())
    expect(page.get_by_text("view only")).to_have_count(0)
    expect(page.locator(".app")).to_be_visible()

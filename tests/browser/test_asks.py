"""Asks in the page: shown in full, counted, answered by hand and by key, or elsewhere."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from browser.conftest import PATIENCE, Reader

expect.set_options(timeout=PATIENCE)
Visit = Callable[..., Reader]

COMMAND = {
    "tool": "shell",
    "options": ["allow_once", "allow_always", "reject_once"],
    "reason": "It reaches localhost:5432, outside the folder.",
}
EDIT = {
    "tool": "edit",
    "title": "Edit dispatch.py",
    "input": {"file_path": "dispatch.py"},
    "diff": "--- a/dispatch.py\n+++ b/dispatch.py\n@@ -1,2 +1,2 @@\n def retry():\n-    pass\n+    await spend()\n",
}


def asking(name: str, **more: Any) -> str:
    """A prompt whose agent asks to make a file of this name."""
    command = f"touch {name}"
    ask = {**COMMAND, "input": {"command": command}, "then": [{"run": command}], **more}
    return f"[[ask:{json.dumps(ask)}]] [[say:It is over.]]"


class Asked:
    """Somebody who looks at a session in which an agent asks."""

    def __init__(
        self, reader: Reader, prompt: str, access: str = "write", agent: str = "claude", typed: bool = False
    ) -> None:
        """`typed`: the prompt, into the session's page. Else the page comes later, and is drawn once."""
        self.reader, self.page = reader, reader.page
        body = {"agent": agent, "folder": str(reader.server.folder), "access": access}
        self.session = str(reader.call("POST", "/api/sessions", body)["id"])
        if not typed:
            body = {"prompt": prompt, "transport": "dialog"}
            reader.call("POST", f"/api/sessions/{self.session}/turns", body)
        self.page.goto(f"{reader.server.url}/#/s/{self.session}")
        if typed:
            self.page.locator("#next").fill(prompt)
            self.page.locator("#next").press("Control+Enter")

    @property
    def card(self) -> Locator:
        return self.page.locator(".journal [data-ask][data-open]")

    @property
    def line(self) -> Locator:
        return self.page.locator(".journal [data-answer]")

    def button(self, name: str) -> Locator:
        return self.card.get_by_role("button", name=name, exact=True)

    def turn(self) -> dict[str, Any]:
        return dict(self.reader.call("GET", f"/api/sessions/{self.session}")["turn"])

    def ended(self) -> None:
        expect(self.page.locator(".envelope")).to_have_count(1)
        expect(self.page.locator(f".session[href*='{self.session}'] .now")).to_have_count(0)


@pytest.mark.core
def test_an_ask_is_shown_in_full_and_allowed(visit: Callable[..., Reader]) -> None:
    reader = visit()
    asked = Asked(reader, asking("allowed.txt"), typed=True)
    expect(asked.card).to_contain_text("claude asks to run a command")
    expect(asked.card.locator(".what")).to_have_text("$ touch allowed.txt")
    expect(asked.card).to_contain_text(COMMAND["reason"])
    expect(asked.card.locator(".left")).to_have_text(re.compile(r"denied in \d+:\d\d"))
    expect(asked.card.get_by_role("button")).to_have_text(
        ["Allow A", "Deny D", "Give a reason", "Allow for this session"]
    )
    row = asked.page.locator(f".session[href*='{asked.session}']")
    expect(row.locator(".now.is-asking")).to_have_text("touch allowed.txt")
    expect(asked.page.locator(".rail .count")).to_have_text("1")
    expect(asked.page).to_have_title(re.compile(r"^\(1\) "))
    expect(asked.page.locator(".turnbar b").first).to_have_text("Asking")
    assert not (reader.server.folder / "allowed.txt").exists()
    asked.button("Allow").click()
    expect(asked.line).to_have_text(re.compile(r"Allowed by you, \d\d:\d\d: run a command touch allowed.txt"))
    asked.ended()
    assert (reader.server.folder / "allowed.txt").exists()
    expect(asked.page.locator(".rail .count")).to_have_count(0)
    expect(asked.page).not_to_have_title(re.compile(r"^\("))


@pytest.mark.core
def test_what_is_denied_does_not_run(visit: Callable[..., Reader]) -> None:
    reader = visit()
    asked = Asked(reader, asking("denied.txt"))
    asked.button("Deny").click()
    expect(asked.line).to_have_text(re.compile(r"^\s*denied\s*Denied by you"))
    asked.ended()
    assert not (reader.server.folder / "denied.txt").exists()


def test_a_denial_may_say_why(visit: Callable[..., Reader]) -> None:
    asked = Asked(visit(), asking("reason.txt"))
    asked.button("Give a reason").click()
    field = asked.card.get_by_label("Reason")
    expect(field).to_be_focused()
    field.press("Escape")
    expect(field).to_have_count(0)
    expect(asked.card).to_be_focused()
    asked.button("Give a reason").click()
    field.fill("use the dad database")  # its letters are no keys of the card
    with asked.page.expect_request("**/answer") as sent:
        field.press("Enter")
    assert (sent.value.post_data_json["option"], sent.value.post_data_json["message"]) == (
        "deny",
        "use the dad database",
    )
    expect(asked.line).to_contain_text("Denied by you")
    asked.ended()


def test_allowed_for_the_session(visit: Callable[..., Reader]) -> None:
    asked = Asked(visit(), asking("always.txt"))
    asked.button("Allow for this session").click()
    expect(asked.line).to_contain_text("Allowed for this session by you")
    asked.ended()


def test_a_diff_is_shown_and_only_what_is_offered(visit: Callable[..., Reader]) -> None:
    asked = Asked(visit(), asking("diff.txt", **EDIT, options=["allow_once", "reject_once"], then=[]))
    expect(asked.card).to_contain_text("claude asks to edit a file")
    expect(asked.card.locator(".diff .add")).to_contain_text("await spend()")
    expect(asked.card.get_by_role("button")).to_have_text(["Allow A", "Deny D", "Give a reason"])
    asked.button("Deny").click()
    asked.ended()


def test_a_tool_has_its_own_name_and_its_input_once(visit: Visit) -> None:
    """`create` and `write` in a name say nothing of what a tool does."""
    issue = {"title": "The write gate leaks", "body": "It leaks at the hinge."}
    more = {"tool": "mcp__github__create_issue", "input": issue, "then": []}
    asked = Asked(visit(), asking("issue.txt", **more))
    expect(asked.card.locator("header")).to_contain_text("claude asks to use a tool")
    expect(asked.card.locator(".own")).to_have_text("mcp__github__create_issue")
    for words in issue.values():
        expect(asked.card).to_have_text(re.compile(f"^(?!.*{words}.*{words}).*{words}", re.DOTALL))
    row = asked.page.locator(f".session[href*='{asked.session}'] .now")
    expect(row).to_contain_text("mcp__github__create_issue")
    asked.button("Deny").click()
    expect(asked.line).to_contain_text("use a tool mcp__github__create_issue")
    asked.ended()


def test_nobody_allows_by_key_what_they_have_not_seen(visit: Visit) -> None:
    reader = visit()
    command = "\n".join(["touch long.txt", *["# x"] * 150, "echo the end"])
    asked = Asked(reader, asking("long.txt", input={"command": command}), typed=True)
    page, head, allow = asked.page, asked.card.locator("h2"), asked.button("Allow")
    journal = page.locator(".journal")
    expect(asked.card.locator(".unseen")).to_be_visible()
    expect(head).to_be_in_viewport()  # it opens at its head
    expect(page.locator(f".session[href*='{asked.session}'] .now")).to_have_text("touch long.txt …")
    page.keyboard.press("Escape")
    page.keyboard.press(".")
    expect(asked.card).to_be_focused()
    expect(head).to_be_in_viewport()
    for key in ("a", "d"):
        page.keyboard.press(key)
        expect(page.get_by_role("alert")).to_contain_text("scroll to the end")
    journal.evaluate("box => (box.scrollTop = box.scrollHeight)")  # over the middle of it
    expect(allow).to_be_in_viewport()
    page.keyboard.press("a")
    expect(allow).to_be_disabled()
    assert asked.turn()["state"] == "asking"
    while not allow.is_enabled():
        journal.evaluate("""box => new Promise((done) => {
            box.scrollTop -= box.clientHeight / 2;
            requestAnimationFrame(() => requestAnimationFrame(done));
        })""")
    page.keyboard.press("a")
    expect(asked.line).to_contain_text("Allowed by you")
    asked.ended()
    assert (reader.server.folder / "long.txt").exists(), asked.turn()


def test_keys_answer_only_the_ask_that_has_the_focus(visit: Callable[..., Reader]) -> None:
    reader = visit()
    asked = Asked(reader, asking("keys.txt") + asking("second.txt"), typed=True)
    expect(asked.button("Allow")).to_be_enabled()
    expect(asked.page.locator("#next")).to_be_focused()  # the ask did not take it
    asked.page.keyboard.press("Escape")
    asked.page.keyboard.press("a")
    asked.page.keyboard.press("d")
    expect(asked.card).to_have_count(1)
    asked.page.keyboard.press(".")
    expect(asked.card).to_be_focused()
    asked.page.keyboard.press("Enter")
    asked.page.keyboard.press("Tab")
    expect(asked.button("Allow")).to_be_focused()
    asked.page.keyboard.press("Enter")
    assert asked.turn()["state"] == "asking" and not (reader.server.folder / "keys.txt").exists()
    asked.page.keyboard.press("a")
    expect(asked.line).to_have_count(1)
    expect(asked.card.locator(".what")).to_have_text("$ touch second.txt")
    expect(asked.button("Allow")).to_be_enabled()
    asked.page.keyboard.press("a")  # meant for the first one: the second has no focus
    asked.page.keyboard.press(".")
    expect(asked.card).to_be_focused()
    assert asked.turn()["state"] == "asking"
    asked.page.keyboard.press("d")
    expect(asked.line).to_have_count(2)
    asked.ended()
    assert (reader.server.folder / "keys.txt").exists() and not (reader.server.folder / "second.txt").exists()


def test_answered_elsewhere(visit: Callable[..., Reader]) -> None:
    reader = visit()
    asked = Asked(reader, asking("elsewhere.txt"))
    expect(asked.card).to_have_count(1)
    done = reader.server.run("answer", asked.session, "allow")
    assert done.returncode == 0, done.stdout
    expect(asked.line).to_contain_text("Allowed by")
    expect(asked.card).to_have_count(0)
    asked.ended()


def test_a_turn_that_is_cancelled_while_it_asks(visit: Callable[..., Reader]) -> None:
    reader = visit()
    asked = Asked(reader, asking("cancelled.txt"))
    expect(asked.card).to_have_count(1)
    asked.page.get_by_role("button", name="Cancel turn").click()
    asked.ended()
    expect(asked.card).to_have_count(0)
    expect(asked.line).to_contain_text("Not answered")
    assert asked.turn()["outcome"] == "cancelled" and not (reader.server.folder / "cancelled.txt").exists()


def test_who_may_only_look_is_offered_nothing(visit: Callable[..., Reader]) -> None:
    asked = Asked(visit(), asking("looked.txt"))
    expect(asked.card).to_have_count(1)
    viewer = visit("Vic", "view")
    viewer.page.goto(f"{viewer.server.url}/#/s/{asked.session}")
    card = viewer.page.locator(".journal [data-open]")
    expect(card).to_contain_text("Waiting for someone who has the right to answer")
    expect(card.get_by_role("button")).to_have_count(0)
    asked.button("Deny").click()
    expect(viewer.page.locator(".journal [data-answer]")).to_contain_text("Denied by You")
    asked.ended()


def test_the_wall_answers_in_place(visit: Callable[..., Reader]) -> None:
    reader = visit()
    asked = Asked(reader, asking("wall.txt"))
    expect(asked.card).to_have_count(1)
    asked.page.goto(f"{reader.server.url}/#/grid")
    strip = asked.page.locator(".tile.asking .strip")
    expect(strip.locator(".asked")).to_have_text("touch wall.txt")
    strip.get_by_role("button", name="Allow").click()
    expect(strip).to_have_count(0)
    asked.page.goto(f"{reader.server.url}/#/s/{asked.session}")
    asked.ended()
    assert (reader.server.folder / "wall.txt").exists()


def test_what_one_line_does_not_tell_is_not_allowed_on_the_wall(visit: Callable[..., Reader]) -> None:
    reader = visit()
    asked = Asked(reader, asking("long.txt", input={"command": "touch long.txt\nrm -rf build"}))
    expect(asked.card.locator(".what")).to_have_text("$ touch long.txt\nrm -rf build")
    asked.page.goto(f"{reader.server.url}/#/grid")
    strip = asked.page.locator(".tile.asking .strip")
    expect(strip.get_by_role("button", name="Deny")).to_be_enabled()
    expect(strip.locator(".asked")).to_have_text("touch long.txt …")
    expect(strip.get_by_role("button")).to_have_text(["Deny", "Open"])
    strip.get_by_role("button", name="Deny").click()
    expect(strip).to_have_count(0)

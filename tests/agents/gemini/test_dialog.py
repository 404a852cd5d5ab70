"""gemini in a dialog: its names of tools, its files and images, and what its policy refuses."""

from typing import Any

import pytest

from agents.acp_replayed import HOST, opened, turn_of
from ostler.agents.acp.dialog import AcpDialog
from ostler.agents.dialog import Write
from ostler.agents.gemini.dialog import ACP, tool
from ostler.model import Attachment

PNG = "data:image/png;base64,AAA="


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ({"toolCallId": "write_file__fc-1", "rawInput": {"p": 1}}, ("write_file", {"p": 1})),
        ({"toolCallId": "run_shell_command__1", "title": "a\nb"}, ("run_shell_command", {"command": "a\nb"})),
        ({"toolCallId": "run_shell_command__1"}, ("run_shell_command", {"command": None})),
        ({"toolCallId": "a__b__c"}, ("a", None)),
        ({"toolCallId": "fc-1", "kind": "execute", "rawInput": 5}, ("shell", 5)),
        ({"toolCallId": 7, "kind": "edit"}, ("edit", None)),
        ({}, ("tool", None)),
    ],
)
def test_a_tools_name_stands_before_its_id(call: dict[str, Any], named: tuple[str, Any]) -> None:
    assert tool(call) == named


@pytest.mark.parametrize(
    ("output", "denied"),
    [
        ("Path not in workspace: /etc", True),
        ("x: Path not in workspace", False),
        ("Permission denied", False),
        ("", False),
    ],
)
def test_what_its_policy_refuses(output: str, denied: bool) -> None:
    assert ACP.denied({}, output) is denied


@pytest.mark.parametrize("prompt", ["/exit", "$HOME", "  /exit"])
def test_a_prompt_is_no_command_of_its_own(prompt: str) -> None:
    assert sent(prompt) == [{"type": "text", "text": f"\u200b{prompt}"}]


def sent(prompt: str, *attached: Attachment) -> list[dict[str, Any]]:
    dialog = AcpDialog(turn_of(), HOST, ACP)
    modes = {"modes": {"currentModeId": "default", "availableModes": [{"id": "default"}]}}
    opened(dialog, modes, agentCapabilities={"promptCapabilities": {"image": True, "embeddedContext": True}})
    steps = dialog.prompt(turn_of(prompt, attachments=attached))
    return next(step.record["params"]["prompt"] for step in steps if isinstance(step, Write))


def test_an_image_of_the_folder_goes_as_a_file_and_another_as_it_is() -> None:
    inside = Attachment(path="/workspace/a b.png", name="a b.png", image=True, data=PNG)
    outside = Attachment(path="/tmp/c.png", name="c.png", image=True, data=PNG)
    sibling = Attachment(path="/workspaces/d.png", name="d.png", image=True, data=PNG)
    blocks = sent("look", inside, outside, sibling)[1:]
    assert blocks[0] == {"type": "resource_link", "uri": "file:///workspace/a b.png", "name": "a b.png"}
    assert [block["type"] for block in blocks] == ["resource_link", "image", "image"]


def test_text_that_goes_with_a_prompt_is_part_of_it() -> None:
    assert sent("look", Attachment(name="n.txt", content="hay"))[1] == {
        "type": "text",
        "text": '<file name="n.txt">\nhay\n</file>',
    }

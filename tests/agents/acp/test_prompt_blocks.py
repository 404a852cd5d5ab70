"""Prompts as blocks of ACP."""

from typing import Any

import pytest

from agents.acp_replayed import turn_of
from ostler.agents.acp.prompt_blocks import prompt_blocks
from ostler.agents.acp.protocol import GUARD, Acp
from ostler.errors import OstlerError
from ostler.model import Attachment

ALL = {"image": True, "embeddedContext": True}
IMAGE = Attachment(path="/workspace/a b.png", name="a b.png", image=True, data="data:image/png;base64,AAA=")
FILE = Attachment(path="/workspace/x y.txt", name="x y.txt")
TEXT = Attachment(name="n.txt", content="hay")


def block(attached: Attachment, acp: Acp | None = None, takes: Any = ALL) -> Any:
    blocks, _ = prompt_blocks(turn_of(attachments=(attached,)), acp or Acp(), takes)
    return blocks[1]


def test_a_prompt_that_would_be_a_command_is_guarded() -> None:
    said = [
        prompt_blocks(turn_of(prompt, command=command), Acp(marks="/$"), {})[0][0]["text"]
        for prompt, command in (("hi", False), (" /exit", False), ("$x", False), ("/exit", True))
    ]
    assert said == ["hi", f"{GUARD} /exit", f"{GUARD}$x", "/exit"]


def test_a_system_prompt_goes_before_the_first_prompt_where_the_launch_does_not_take_it() -> None:
    turn = turn_of("go", system="be brief", first=True)
    blocks, notices = prompt_blocks(turn, Acp(), {})
    assert blocks == [{"type": "text", "text": "be brief\n\ngo"}] and len(notices) == 1
    assert prompt_blocks(turn, Acp(system="launch"), {}) == ([{"type": "text", "text": "go"}], [])


def test_images_and_files() -> None:
    assert block(IMAGE) == {"type": "image", "mimeType": "image/png", "data": "AAA="}
    assert block(FILE) == {"type": "resource_link", "uri": "file:///workspace/x%20y.txt", "name": "x y.txt"}
    by_path = Acp(images_by_path=True, quotes_paths=False)
    assert block(IMAGE, by_path) == {"type": "resource_link", "uri": "file:///workspace/a b.png", "name": "a b.png"}
    with pytest.raises(OstlerError, match="does not accept images"):
        block(IMAGE, takes={})


def test_text_is_embedded_where_the_agent_can_and_may() -> None:
    plain = {"type": "text", "text": '<file name="n.txt">\nhay\n</file>'}
    assert block(TEXT) == {"type": "resource", "resource": {"uri": "file:///n.txt", "text": "hay"}}
    assert block(TEXT, Acp(embeds=False)) == plain == block(TEXT, takes={})

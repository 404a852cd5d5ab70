"""A prompt and what goes with it, as the content blocks of ACP."""

from urllib.parse import quote

from msgspec import structs

from ostler.agents.acp.protocol import GUARD, Acp
from ostler.agents.launches import SYSTEM_FIRST
from ostler.agents.paths import is_inside
from ostler.agents.values import Record
from ostler.errors import OstlerError
from ostler.model import Attachment, Turn


def prompt_blocks(turn: Turn, acp: Acp, takes: Record) -> tuple[list[Record], list[str]]:
    """The prompt as blocks, and what was done to it; `takes` are the agent's `promptCapabilities`."""
    notices = []
    if turn.system and turn.first and _goes_before(turn.system, acp) and turn.system_mode == "append":
        turn = structs.replace(turn, prompt=f"{turn.system}\n\n{turn.prompt}")
        notices.append(SYSTEM_FIRST)
    guarded = not turn.command and turn.prompt.lstrip()[:1] in tuple(acp.marks)
    said = GUARD + turn.prompt if guarded else turn.prompt
    return [{"type": "text", "text": said}, *(_block(each, turn, acp, takes) for each in turn.attachments)], notices


def _goes_before(system: str, acp: Acp) -> bool:
    return acp.system == "prompt" or (acp.system_limit is not None and len(system.encode()) > acp.system_limit)


def _block(attached: Attachment, turn: Turn, acp: Acp, takes: Record) -> Record:
    """Raises unsupported."""
    if attached.image and not takes.get("image"):
        what = f"{turn.agent} does not accept images: {attached.path}"
        raise OstlerError("unsupported", what, "Leave it out, or choose another agent")
    if attached.data and not (acp.images_by_path and is_inside(attached.path, turn.folder)):
        kind, _, data = attached.data.removeprefix("data:").partition(";base64,")
        return {"type": "image", "mimeType": kind, "data": data}
    if attached.content is None:
        name = attached.name or attached.path.rpartition("/")[2]
        path = quote(attached.path) if acp.quotes_paths else attached.path
        return {"type": "resource_link", "uri": f"file://{path}", "name": name}
    if takes.get("embeddedContext") and acp.embeds:
        resource = {"uri": f"file:///{attached.name}", "text": attached.content}
        return {"type": "resource", "resource": resource}
    return {"type": "text", "text": f'<file name="{attached.name}">\n{attached.content}\n</file>'}

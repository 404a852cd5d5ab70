"""The dialog face of an agent that speaks ACP: what its adapter makes of its `Acp` and its launch."""

from collections.abc import Callable, Sequence

from msgspec import structs

from ostler.agents.acp.protocol import Acp
from ostler.agents.dialog import Dialog, DialogFace
from ostler.agents.mcp import MCP_TRANSPORTS
from ostler.model import Host, Launch, Turn


def acp_face(
    acp: Acp, launch: Callable[[Turn, Host], Launch], needs: Sequence[str] = (), access: str = ""
) -> DialogFace:
    """The face of an agent that speaks ACP when it is launched so."""

    def dialog(turn: Turn, host: Host) -> Dialog:
        from ostler.agents.acp.dialog import AcpDialog  # turns of one process each have no use for it

        return AcpDialog(turn, host, acp)

    return DialogFace(
        launch=launch,
        dialog=dialog,
        needs=tuple(needs),
        images=True,
        mcp=MCP_TRANSPORTS,
        protocol="acp",
        access=access,
    )


def bare(turn: Turn) -> Turn:
    """What of a turn decides its launch: the rest goes with prompts, or by the protocol."""
    return structs.replace(
        turn, prompt="", attachments=(), schema=None, command=False, agent_session=None, resume=False, fork=False
    )

"""What a client told of itself."""

from typing import Any

from msgspec import Struct

from ostler.agents.values import table


class AcpClient(Struct, frozen=True):
    """The abilities that matter to us; without a word of them it has none."""

    terminals: bool = False  # shows the output of commands told in `_meta.terminal_*`
    notices: bool = False


def client_of(capabilities: Any) -> AcpClient:
    offered = table(capabilities)
    return AcpClient(
        terminals=table(offered.get("_meta")).get("terminal_output") is True,
        notices=isinstance(table(offered.get("session")).get("notices"), dict),
    )

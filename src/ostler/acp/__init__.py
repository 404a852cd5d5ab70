"""ostler as an ACP agent: any agent of ostler behind the Agent Client Protocol, for editors and other clients.

The client side of the protocol is a dialog like others: `ostler.agents.acp.dialog`.
"""

from ostler.acp.agent import AcpAgent
from ostler.acp.wire import AcpConnection

__all__ = ["AcpAgent", "AcpConnection"]

"""A new ACP agent is one description: its face makes the dialog of it."""

from agents.acp_replayed import HOST, opened, turn_of
from ostler.agents.acp.dialog import AcpDialog
from ostler.agents.acp.face import acp_face, bare
from ostler.agents.acp.protocol import Acp
from ostler.agents.dialog import Ready, Write
from ostler.model import Attachment, Host, Launch, Turn


def launch(turn: Turn, host: Host) -> Launch:
    return Launch(argv=(host.executable, "acp"))


def test_a_description_is_all_that_it_takes() -> None:
    face = acp_face(Acp(modes={"full": "careful"}, leaves_commands=True), launch, needs=["--acp"], access="`acp`")
    assert (face.protocol, face.needs, face.access, face.images) == ("acp", ("--acp",), "`acp`", True)
    dialog = face.dialog(turn_of(), HOST)
    assert isinstance(dialog, AcpDialog) and dialog.leaves_commands
    (write,) = opened(dialog, {"modes": {"currentModeId": "x", "availableModes": [{"id": "careful"}]}})
    assert isinstance(write, Write) and write.record["params"] == {"sessionId": "S", "modeId": "careful"}


def test_dialogs_of_two_agents_share_nothing() -> None:
    one, two = (acp_face(acp, launch).dialog(turn_of(), HOST) for acp in (Acp(leaves_commands=True), Acp()))
    assert (one.leaves_commands, two.leaves_commands) == (True, False)
    assert isinstance(two, AcpDialog) and opened(two) == [Ready(agent_session="S")]


def test_what_decides_a_launch_is_without_the_prompt() -> None:
    whole = turn_of("p", attachments=(Attachment(name="a", content="b"),), resume=True, agent_session="s", model="m")
    assert bare(whole) == turn_of("", model="m")

"""An agent from another package: pony, a made-up CLI. It has turns of one process each, and dialogs over ACP."""

from ostler.access import ACCESS_ORDER
from ostler.agents.acp.face import acp_face
from ostler.agents.acp.protocol import Acp
from ostler.agents.adapter import Agent
from ostler.agents.failures import kind_of
from ostler.agents.launches import literal, refuse_tool_lists, with_attachments
from ostler.agents.reader import Reader
from ostler.agents.tool_input import title_of
from ostler.agents.values import Record, number, table, text
from ostler.model import AnyEvent, Host, Launch, Raw, ToolEnded, ToolStarted, Turn, Usage


def launch(turn: Turn, host: Host) -> Launch:
    """`pony run …`: the prompt goes to stdin, every other value is bound to its flag."""
    refuse_tool_lists(turn)
    flags = [f"--access={turn.access}"]
    if turn.model:
        flags.append(f"--model={turn.model}")
    if turn.system:
        flags.append(f"--system={turn.system}")
    if turn.resume:
        flags.append(f"--resume={turn.agent_session}")
    prompt = with_attachments(literal(turn), turn.attachments)
    return Launch(argv=(host.executable, "run", *flags), stdin=prompt.encode())


class PonyReader(Reader):
    """One `match` over its records; what is unknown is kept as it is."""

    def read(self, record: Record) -> list[AnyEvent]:
        match record.get("type"):
            case "begin":
                self.agent_session, self.model = text(record.get("id")) or None, text(record.get("model")) or None
                return [self.started()]
            case "say":
                return [self.whole(text(record.get("text")))]
            case "tool":
                id, name, input = text(record.get("id")), text(record.get("name")), record.get("input")
                return [self.tool_started(ToolStarted(id=id, name=name, title=title_of(name, input), input=input))]
            case "tool_end":
                ok, output = record.get("ok") is True, text(record.get("output"))
                return [self.tool_ended(ToolEnded(id=text(record.get("id")), ok=ok, output=output))]
            case "end":
                return self._end(record)
        return [Raw(record=record)]

    def _end(self, record: Record) -> list[AnyEvent]:
        tokens = table(record.get("tokens"))
        self.usage = Usage(input_tokens=number(tokens.get("in")), output_tokens=number(tokens.get("out")))
        if record.get("ok") is True:
            self.succeed("end, ok")  # without the agent's own word no turn is done
        else:
            said = text(record.get("error"))
            self.fail("end, not ok", kind_of(None, said), said)
        return []


def acp_launch(turn: Turn, host: Host) -> Launch:
    refuse_tool_lists(turn)
    return Launch(argv=(host.executable, "acp"))


AGENT = Agent(
    name="pony",
    title="Pony",
    monogram="po",
    hue=130,
    binaries=("pony",),
    install="pip install ostler-pony",
    launch=launch,
    reader=PonyReader,
    probed=False,  # it has no --version and no --help
    login_elsewhere=True,
    models=("pony-*",),
    access={level: f"`--access={level}`" for level in ACCESS_ORDER},
    tools={"shell": ("gallop",)},
    system="flag",
    # All that ostler has to know of an agent that speaks ACP: here, the mode in which it asks before it acts.
    dialog=acp_face(Acp(modes=dict.fromkeys(ACCESS_ORDER, "ask")), acp_launch, access="mode `ask`"),
)

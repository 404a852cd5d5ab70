"""copilot in a dialog: `copilot --acp`, with the denials of a turn of its own and none of its allowances."""

from collections.abc import Callable

from ostler.agents.acp import AcpDialog, bare
from ostler.agents.acp_words import Acp
from ostler.agents.adapter import Record
from ostler.agents.dialog import DialogFace
from ostler.agents.values import UUID, table
from ostler.words import Host, Launch, Problem, Turn


class CopilotDialog(AcpDialog):
    acp = Acp(
        modes={"read": "agent", "write": "agent", "full": "agent"},
        options={"allow_all": "off"},  # a user's settings may turn it on
        model_by_flag=True,
        system="launch",
        counts="process",
        embeds=False,  # it puts them into files in /tmp, and may not read those
        aside=lambda said: said.startswith("Info: Disabled tools: "),
        denied=lambda call, output: table(call.get("rawOutput")).get("code") == "denied",
    )
    problem_of: Callable[[Record], Problem]

    def log(self) -> str:
        """It ends a turn well that came to nothing, say by a refused key; the error stands in its own file alone."""
        doubtful = self.reader is not None and self.reader.result is not None and self.reader.usage is None
        if not doubtful or not UUID.fullmatch(self._session):
            return ""
        return f".copilot/session-state/{self._session}/events.jsonl"

    def explain(self, records: list[Record]) -> None:
        assert self.reader is not None
        problem: Problem | None = None
        for record in records:
            if record.get("type") == "user.message":
                problem = None
            elif record.get("type") == "session.error":
                problem = type(self).problem_of(table(record.get("data")))
        if problem is not None and (self.reader.problem is None or self.reader.problem.kind == "unproven"):
            self.reader.fail("its log: session.error", problem.kind, problem.message, problem.hint)


def face(launch: Callable[[Turn, Host], Launch], problem_of: Callable[[Record], Problem]) -> DialogFace:
    class Spoken(CopilotDialog):
        pass

    Spoken.problem_of = staticmethod(problem_of)

    def launched(turn: Turn, host: Host) -> Launch:
        once = launch(bare(turn), host)
        flags = [flag for flag in once.argv[1:] if not flag.startswith(("--output-format=", "--allow-"))]
        return Launch(argv=(host.executable, "--acp", *flags), env=once.env, files=once.files, notices=once.notices)

    return DialogFace(launch=launched, dialog=Spoken, images=True, protocol="acp")

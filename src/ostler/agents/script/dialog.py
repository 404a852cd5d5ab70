"""The scripted agent in a dialog; the records stand in `ostler.testing.talk`."""

from collections.abc import Callable

from ostler.access import ACCESS_ORDER
from ostler.agents.dialog import AnswerKind, Ask, Dialog, Emit, Over, Ready, Step, Write
from ostler.agents.launches import with_attachments
from ostler.agents.offers import offers
from ostler.agents.reader import Reader
from ostler.agents.values import Record, table
from ostler.errors import OstlerError, quoted
from ostler.model import Asked, Host, Launch, Offered, Turn

MODES = ("default", "plan")


class ScriptDialog(Dialog):
    """Prompts, answers and interrupts as they are; its records are read as in turns of one process each."""

    modes = dict.fromkeys(ACCESS_ORDER, MODES)

    def __init__(self, turn: Turn, host: Host, reader_of: Callable[[Turn], Reader]) -> None:
        super().__init__(turn, host)
        self._reader_of = reader_of
        self._session: str | None = None
        self._model: str | None = None
        self._asks: set[str] = set()
        self._mode = MODES[0]
        self._offers: Record = {}

    # -- what people want

    def open(self) -> list[Step]:
        return []  # it says `init` by itself

    def prompt(self, turn: Turn) -> list[Step]:
        self.reader = reader = self._reader_of(turn)
        reader.agent_session, reader.model = self._session, self._model
        inline = [a for a in turn.attachments if a.content is not None]
        record = {
            "type": "prompt",
            "prompt": with_attachments(turn.prompt, inline),
            "attach": [a.path for a in turn.attachments if a.content is None],
            "model": self._model,
            "mode": self._mode,
            "command": turn.command,
        }
        return [Emit([reader.started()]), *self.offers(), Write(record)]

    def interrupt(self) -> list[Step]:
        return [Write({"type": "interrupt"})]

    def answer(self, ask: str, kind: AnswerKind, message: str = "") -> list[Step]:
        if ask not in self._asks:
            raise OstlerError("not_found", f"the ask {quoted(ask)} is not open")
        self._asks.discard(ask)
        return [Write({"type": "answer", "id": ask, "option": kind, "message": message})]

    def steer(self, text: str) -> list[Step]:
        if not self.steers:
            return super().steer(text)
        if self.reader is None or self.reader.result is not None:
            raise OstlerError("not_found", "no turn is running that could be steered", "Send it as the next prompt")
        return [Write({"type": "steer", "text": text})]

    def change(self, *, model: str | None = None, mode: str | None = None) -> list[Step]:
        if mode is not None:
            self.check_mode(mode)
            self._mode = mode
        self._model = model or self._model
        return []

    def offered(self) -> Offered:
        offered = self._offers
        return Offered(
            quiet=True,
            commands=offers(offered.get("commands"), "id"),
            models=offers(offered.get("models"), "id"),
            modes=offers(offered.get("modes"), "id"),
            model=self._model or "",
            mode=self._mode if offered.get("modes") else "",
        )

    # -- what the process says

    def read(self, record: Record) -> list[Step]:
        if record.get("type") == "init" and self._session is None:
            session, model = record.get("session"), record.get("model")
            self._session = session if isinstance(session, str) else None
            self._model = model if isinstance(model, str) else None
            self.steers = record.get("steers") is True
            self._offers = table(record.get("offers"))
            return [Ready(agent_session=self._session, model=self._model)]
        if self.reader is None:
            return []
        steps: list[Step] = []
        for event in self.reader.read(record):
            if isinstance(event, Asked):
                self._asks.add(event.id)
                steps.append(Ask(event))
            else:
                steps.append(Emit([event]))
        if self.reader.result is not None:
            steps.append(Over())
        return steps


def dialog_launch(launch: Callable[[Turn, Host], Launch]) -> Callable[[Turn, Host], Launch]:
    """The same flags as for one turn; what goes with the prompt comes with the prompt."""

    def launched(turn: Turn, host: Host) -> Launch:
        once = launch(turn, host)
        argv = [flag for flag in once.argv if not flag.startswith("--attach=")]
        return Launch(argv=(*argv, "--dialog"), files=once.files)

    return launched

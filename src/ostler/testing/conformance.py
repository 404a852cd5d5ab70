"""Does an adapter keep its promises? One call for whoever writes one:

    from ostler.testing import assert_conforms
    assert_conforms(AGENT, captures=Path("tests/captures/myagent"))

`captures` is a folder of recorded stdout, one `CASE.ndjson` a turn, and the agent's `help.txt`. Without it
the rules that need a real stream are skipped, and the report says so.

    described   name, binaries, install and the levels of access are filled in
    launches    every level of access launches or raises OstlerError; read and full are not the same
    repeatable  the same turn gives the same launch, the same records the same events
    pure        no file, process or socket is touched
    files       private files stay under Host.private, files for the folder are plain names, settings have a place
    literal     prompt, model, ids, system prompt and tool names never stand as arguments of their own before `--`
    carried     what a turn asks for is somewhere in the launch
    survives    no record, however odd, raises
    events      events can be written down, and say nothing that is ostler's to say
    unknown     a record that is not known becomes a raw event that holds it
    whole       a whole text follows its deltas, also when the stream breaks off
    closed      every tool that was started has ended once the stream is flushed
    proof       without the agent's own result a turn is never done
    exit        with a bad exit code a turn is never done

Where the agent has dialogs:

    dialog_launch    some level of access launches one; its prompts are not in the launch
    dialog_survives  it opens with steps, and no record, however odd, raises
    dialog_asks      an ask that is not open is not_found
"""

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from ostler.access import ACCESS_ORDER
from ostler.agents.adapter import Agent
from ostler.errors import OstlerError
from ostler.model import Attachment, Host, Launch, Turn

HOSTILE = (
    "--version",
    "--help",
    "-p",
    "--settings=/x",
    "--dangerously-skip-permissions",
    "-",
    "--",
    "@file",
    "!cmd",
    "/exit",
)
ID = "01999999-aaaa-7bbb-8ccc-0123456789ab"
CARRIED = {"prompt": "qwxprompt words", "model": "qwxvendor/qwxmodel", "system": "qwxsystem words"}
MOST = 5  # findings told of one rule


class Finding(Struct, frozen=True, kw_only=True):
    """A promise that was not kept."""

    rule: str
    message: str


class Report(Struct, frozen=True, kw_only=True):
    """What was checked, how often, and what was found."""

    agent: str
    checked: dict[str, int]
    skipped: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        counts = ", ".join(f"{rule} {count}" for rule, count in self.checked.items())
        lines = [f"{self.agent}: {'conforms' if self.ok else 'does not conform'} ({counts})"]
        lines += [f"  {finding.rule}: {finding.message}" for finding in self.findings]
        lines += [f"  not checked: {rule} (no captures with a good end)" for rule in self.skipped]
        return "\n".join(lines)


class Ledger:
    """Counts what was checked and keeps what was found."""

    def __init__(self) -> None:
        self.checked: dict[str, int] = {}
        self.findings: list[Finding] = []

    def expect(self, rule: str, true: bool, message: str) -> bool:
        self.checked[rule] = self.checked.get(rule, 0) + 1
        if not true and sum(found.rule == rule for found in self.findings) < MOST:
            self.findings.append(Finding(rule=rule, message=message))
        return true


def check_adapter(agent: Agent, captures: Path | None = None, *, host: Host | None = None, seed: int = 0) -> Report:
    """Checks every rule above; `host` replaces the made-up one, `seed` changes the random records."""
    from ostler.testing.conformance_dialog import check_dialog
    from ostler.testing.conformance_reader import check_reader

    ledger = Ledger()
    host = host or _host(agent, captures)
    turn = check_launches(agent, host, ledger)
    check_reader(agent, turn, captures, seed, ledger)
    check_dialog(agent, turn, host, seed, ledger)
    skipped = tuple(rule for rule in ("whole", "exit") if rule not in ledger.checked)
    return Report(agent=agent.name, checked=ledger.checked, skipped=skipped, findings=tuple(ledger.findings))


def assert_conforms(agent: Agent, captures: Path | None = None, *, host: Host | None = None, seed: int = 0) -> None:
    """Raises AssertionError with the whole report if the adapter breaks a rule."""
    report = check_adapter(agent, captures, host=host, seed=seed)
    assert report.ok, str(report)


def _host(agent: Agent, captures: Path | None) -> Host:
    helps = sorted(captures.glob("help*.txt")) if captures else []
    texts = [path.read_text(errors="replace") for path in helps]
    return Host(
        executable=f"/opt/agents/{agent.binaries[0] if agent.binaries else agent.name}",
        version="1.0.0",
        help="\n".join([*texts, *agent.needs]),
        private="/private/turn",
        home="/home/user",
        programs=frozenset(agent.programs),
    )


# -- purity -----------------------------------------------------------------------------------------

_TOUCHES = ("open", "os.", "socket.", "subprocess.", "shutil.", "tempfile.", "urllib.", "sqlite3.")
_watched: dict[int, list[str]] = {}  # thread → what it touched
_hooked = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    touched = _watched.get(threading.get_ident())
    if touched is not None and event.startswith(_TOUCHES):
        touched.append(f"{event} {args[0] if args else ''}")


@contextmanager
def watching() -> Iterator[list[str]]:
    """What this thread touches meanwhile. (An audit hook stays for good, so there is only one.)"""
    global _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    touched = _watched[threading.get_ident()] = []
    try:
        yield touched
    finally:
        del _watched[threading.get_ident()]


# -- launches ---------------------------------------------------------------------------------------


def check_launches(agent: Agent, host: Host, ledger: Ledger) -> Turn:
    """Returns a turn that this agent launches."""
    described = bool(agent.name and agent.title and agent.binaries and agent.install)
    ledger.expect("described", described, "name, title, binaries or install is empty")
    missing = [level for level in ACCESS_ORDER if not agent.access.get(level)]
    ledger.expect("described", not missing, f"by which flags is access {', '.join(missing)} enforced?")
    plain = Turn(id="t1", session="k1", agent=agent.name, folder="/folder", prompt=CARRIED["prompt"])
    if not agent.one_shot:
        return plain  # it is only ever launched as a dialog
    launched = {level: _launch(agent, structs.replace(plain, access=level), host, ledger) for level in ACCESS_ORDER}
    works = [level for level, launch in launched.items() if launch is not None]
    if not ledger.expect("launches", bool(works), "no level of access launches"):
        return plain
    if launched["read"] and launched["full"]:
        ledger.expect("launches", launched["read"] != launched["full"], "access read and full launch the same")
    turn = structs.replace(plain, access=works[0])
    for variant in _variants(agent, turn):
        if (launch := _launch(agent, variant, host, ledger)) is not None:
            check_files(agent, launch, host, ledger)
            _check_repeatable(agent, variant, host, launch, ledger)
    _check_carried(agent, turn, host, ledger)
    _check_literal(agent, turn, host, ledger)
    return turn


def _variants(agent: Agent, turn: Turn) -> list[Turn]:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    changes: list[dict[str, Any]] = [
        {},
        {"system": CARRIED["system"]},
        *([{"system": CARRIED["system"], "system_mode": "replace"}] if agent.replaces_system else []),
        {"model": CARRIED["model"]},
        {"schema": schema},
        {"attachments": (Attachment(path="/folder/a.png", image=True), Attachment(name="../n", content="inline"))},
        {"agent_session": ID},
        {"agent_session": ID, "resume": True, "first": False},
        {"agent_session": ID, "resume": True, "first": False, "fork": agent.forks},
        {"lean": True},
    ]
    return [structs.replace(turn, **change) for change in changes]


def _launch(agent: Agent, turn: Turn, host: Host, ledger: Ledger) -> Launch | None:
    """The launch; None for an OstlerError, and for any other exception, which is a finding."""
    try:
        launch = agent.launch(turn, host)
    except OstlerError:
        return None
    except Exception as error:
        ledger.expect("launches", False, f"access {turn.access}: {error!r}")
        return None
    fits = bool(launch.argv) and all(isinstance(arg, str) and "\0" not in arg for arg in launch.argv)
    ledger.expect("launches", fits, f"this argv cannot be started: {launch.argv!r}")
    return launch


def check_files(agent: Agent, launch: Launch, host: Host, ledger: Ledger) -> None:
    for path in launch.files:
        inside = path.startswith(host.private + "/") and ".." not in path.split("/")
        ledger.expect("files", inside, f"{path} is not under {host.private}")
    for name in launch.folder_files:
        ledger.expect("files", "/" not in name and name not in ("", ".", ".."), f"{name!r} is no plain name")
    known = agent.state is not None and agent.state.shadowed and agent.state.settings
    ledger.expect("files", bool(known) or not launch.settings, "its settings need `State.shadowed` and `settings`")


def _check_repeatable(agent: Agent, turn: Turn, host: Host, first: Launch, ledger: Ledger) -> None:
    with watching() as touched:
        second = agent.launch(turn, host)
    ledger.expect("repeatable", first == second, "the same turn gives two different launches")
    ledger.expect("pure", not touched, f"launch touches {', '.join(touched[:3])}")


def _check_carried(agent: Agent, turn: Turn, host: Host, ledger: Ledger) -> None:
    for field, text in CARRIED.items():
        if (launch := _launch(agent, structs.replace(turn, **{field: text}), host, ledger)) is not None:
            ledger.expect("carried", text in everything(launch), f"the {field} is nowhere in the launch")
    replaced = structs.replace(turn, system=CARRIED["system"], system_mode="replace")
    if agent.replaces_system and (launch := _launch(agent, replaced, host, ledger)) is not None:
        ledger.expect("carried", CARRIED["system"] in everything(launch), "a system prompt that replaces is lost")
    if agent.resumes:
        resumed = structs.replace(turn, agent_session=ID, resume=True, first=False)
        if (launch := _launch(agent, resumed, host, ledger)) is not None:
            ledger.expect("carried", ID in everything(launch), "the id to resume is nowhere in the launch")


def everything(launch: Launch) -> str:
    contents = [launch.stdin, *launch.files.values()]
    texts = [*launch.argv[1:], *launch.env.values(), *launch.folder_files.values()]
    return "\n".join([*texts, *(content.decode("utf-8", "replace") for content in contents)])


def _check_literal(agent: Agent, turn: Turn, host: Host, ledger: Ledger) -> None:
    ways: dict[str, Callable[[str], Turn]] = {
        "prompt": lambda text: structs.replace(turn, prompt=text),
        "model": lambda text: structs.replace(turn, model=text),
        "system": lambda text: structs.replace(turn, system=text),
        "id to choose": lambda text: structs.replace(turn, agent_session=text),
        "id to resume": lambda text: structs.replace(turn, agent_session=text, resume=True, first=False),
        "allowed tool": lambda text: structs.replace(turn, tools_allowed=(text,)),
        "denied tool": lambda text: structs.replace(turn, tools_denied=(text,)),
    }
    for what, way in ways.items():
        plain = _launch(agent, way("qwxplain"), host, ledger)
        usual = plain.argv if plain else ()
        if what == "prompt":
            bare = [arg for arg in _options(usual) if "qwxplain" in arg and not re.match(r"--[\w-]+=", arg)]
            ledger.expect("literal", not bare, "the prompt is an argument of its own")
        for text in HOSTILE:
            launch = _launch(agent, way(text), host, ledger)
            if launch is not None:
                loose = _stands_alone(launch.argv, text, usual)
                ledger.expect("literal", not loose, f"{what} {text!r} is an argument of its own: {launch.argv!r}")


def _stands_alone(argv: tuple[str, ...], text: str, usual: tuple[str, ...]) -> bool:
    """Whether an agent's parser could take `text` for an argument or an option."""
    if text == "--":
        return text in argv and text not in usual
    args = _options(argv)
    if args.count(text) > _options(usual).count(text):
        return True
    return len(text.strip("-")) > 0 and any(arg.startswith(text) and arg not in usual for arg in args)


def _options(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments up to `--`: beyond it a parser takes everything as it is."""
    args = argv[1:]
    return args[: args.index("--")] if "--" in args else args

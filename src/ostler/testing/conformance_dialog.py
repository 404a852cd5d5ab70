"""Does the dialog of an adapter keep its promises? The rules `dialog_…` of `ostler.testing.conformance`."""

import random
from typing import get_args

from msgspec import structs

from ostler.access import ACCESS_ORDER
from ostler.agents.adapter import Agent
from ostler.agents.dialog import Dialog, DialogFace, Step
from ostler.errors import OstlerError
from ostler.model import Host, Launch, Turn
from ostler.testing import fuzz
from ostler.testing.conformance import ID, Ledger, check_files, everything, watching

RECORDS = 300
STEPS = get_args(Step)


def check_dialog(agent: Agent, turn: Turn, host: Host, seed: int, ledger: Ledger) -> None:
    face = agent.dialog
    if face is None:
        return
    turn = structs.replace(turn, agent=agent.name, transport="dialog")
    resumed = structs.replace(turn, agent_session=ID, resume=True, first=False)
    launched = 0
    for each in (resumed, *(structs.replace(turn, access=level) for level in ACCESS_ORDER)):
        if (launch := _launch(face, each, host, ledger)) is not None:
            launched += 1
            check_files(agent, launch, host, ledger)
            inside = each.prompt in everything(launch)
            ledger.expect("dialog_launch", not inside, "the prompt is in the launch of a process for many turns")
            _check_talk(face, each, host, random.Random(seed), ledger)
    ledger.expect("dialog_launch", launched > 0, "no level of access launches a dialog")


def _launch(face: DialogFace, turn: Turn, host: Host, ledger: Ledger) -> Launch | None:
    """The launch; None for an OstlerError, and for any other exception, which is a finding."""
    try:
        first = face.launch(turn, host)
        with watching() as touched:
            second = face.launch(turn, host)
    except OstlerError:
        return None
    except Exception as error:
        ledger.expect("dialog_launch", False, f"access {turn.access}: {error!r}")
        return None
    ledger.expect("repeatable", first == second, "the same turn gives two different launches of a dialog")
    ledger.expect("pure", not touched, f"the launch of a dialog touches {', '.join(touched[:3])}")
    return first


def _check_talk(face: DialogFace, turn: Turn, host: Host, rng: random.Random, ledger: Ledger) -> None:
    """A dialog that has begun, and hears nothing but nonsense."""
    record: object = "the start"
    try:
        dialog = face.dialog(turn, host)
        _expect_steps(dialog.open(), ledger)
        for _ in range(RECORDS):
            record = fuzz.record(rng)
            _expect_steps(dialog.read(record), ledger)
        record = "a line that is no record"
        _expect_steps(dialog.read_noise("hello\n"), ledger)
    except Exception as error:
        ledger.expect("dialog_survives", False, f"{error!r} on {str(record)[:300]}")
        return
    ledger.expect("dialog_survives", True, "")
    _check_unopened(dialog, ledger)


def _check_unopened(dialog: Dialog, ledger: Ledger) -> None:
    try:
        dialog.answer("no such ask", "allow_once")
    except OstlerError as error:
        ledger.expect("dialog_asks", error.kind == "not_found", f"an ask that is not open is {error.kind}")
    except Exception as error:
        ledger.expect("dialog_asks", False, f"an ask that is not open: {error!r}")
    else:
        ledger.expect("dialog_asks", False, "an ask that is not open can be answered")


def _expect_steps(steps: list[Step], ledger: Ledger) -> None:
    odd = [step for step in steps if not isinstance(step, STEPS)]
    ledger.expect("dialog_survives", not odd, f"{odd[:1]!r} is no step")

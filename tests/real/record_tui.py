"""Records tests/captures/tui anew: real CLIs in terminals of three sizes, through situations that are known.

    OSTLER_TEST_CLIS=… OSTLER_TEST_NODE=… python tests/real/record_tui.py [AGENT …] [--only NAME]

Each situation is made by the scripted model (what it holds back, which tool it calls) and by keys; a moment is labelled
by what was made, when the model's requests, files of the tool and words of the CLI show that it is there.
"""

import argparse
import asyncio
import json
import shutil
import sys
import traceback
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))


from ostler.model import Turn
from ostler.work import Ostler
from real import script_situations
from real.conftest import alone_with_loopback
from real.test_tui import SETTLED
from real.tui_recorder import Recorder, TimedModel
from real.tui_situations import (
    LOOKS,
    TRICKY,
    Play,
    Playing,
    before,
    first_run,
    killed_asking,
    killed_busy,
    resumed,
    whole,
)
from real.yard import Yard

CORPUS = Path(__file__).parent.parent / "captures" / "tui"
BASE = Path("/home/user")  # codex refuses to work under /tmp
SIZES = {"80x24": (80, 24), "120x30": (120, 30), "200x50": (200, 50)}


async def recorded(agent: str, name: str, size: tuple[int, int], playing: Playing, start: dict[str, Any]) -> None:
    print(f"== {agent} {name}", flush=True)
    base = BASE / agent
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
    try:
        with TimedModel(scenario="text") as model:
            yard = Yard(agent, base, model, False)
            SETTLED[agent](yard)
            start.get("unsettle", lambda yard: None)(yard)
            async with yard.ostler() as o:
                options = {key: value for key, value in start.items() if key != "unsettle"}
                await take(o, yard, model, name, size, playing, **options)
    finally:
        shutil.rmtree(base, ignore_errors=True)


async def take(
    o: Ostler, yard: Yard, model: TimedModel, name: str, size: tuple[int, int], playing: Playing, **start: Any
) -> None:
    first = start.pop("after", None)
    session = await played(o, yard, model, "", size, first) if first else None
    await played(o, yard, model, name, size, playing, session, **start)


async def played(
    o: Ostler,
    yard: Yard,
    model: TimedModel,
    name: str,
    size: tuple[int, int],
    playing: Playing,
    session: str | None = None,
    **start: Any,
) -> str | None:
    """The id of the conversation; without a name nothing is kept of it."""
    live = await yard.session(o, access="full")
    await o.store.add_session(live.row)
    turn = Turn(
        id=f"{live.id}-t",
        session=live.id,
        agent=yard.agent,
        prompt="x",
        folder=str(yard.folder),
        access="full",
        transport="pty",
        agent_session=session or str(uuid.uuid4()),
        resume=session is not None,
    )
    rec = await Recorder.start(o, live, turn, size, **start)
    try:
        await playing(Play(yard, rec, model))
    finally:
        await rec.close()
        if name:
            CORPUS.mkdir(exist_ok=True)
            rec.save(CORPUS / f"{yard.agent}-{name}.jsonl", version_of(yard.agent))
    return rec.conversation


def version_of(agent: str) -> str:
    locked = json.loads((Path(__file__).parent / "clis" / "package-lock.json").read_text())["packages"]
    packages = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex", "gemini": "@google/gemini-cli"}
    return str(locked[f"node_modules/{packages[agent]}"]["version"]) if agent in packages else ""


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="*", default=[*LOOKS, "script"])
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    alone_with_loopback()
    wrong = []
    for agent in given.agents:
        takes = [(name, scripted(name)) for name in script_situations.PLAN] if agent == "script" else []
        takes += [(name, recorded(agent, name, *rest)) for name, *rest in plan(agent)] if agent != "script" else []
        for name, taking in takes:
            if given.only not in name:
                taking.close()
                continue
            try:
                await taking
            except Exception:
                traceback.print_exc()
                wrong.append(f"{agent} {name}")
    print("went wrong:", ", ".join(wrong) or "nothing")


async def scripted(name: str) -> None:
    print(f"== script {name}", flush=True)
    base = BASE / "script"
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
    try:
        await script_situations.record(name, base, CORPUS / f"script-{name}.jsonl", TRICKY)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def unsettled_claude(yard: Yard) -> None:
    path = yard.home / ".claude.json"
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, "customApiKeyResponses": {"approved": []}}))


def unsettled_codex(yard: Yard) -> None:
    shutil.rmtree(yard.home / ".codex")
    yard.env.pop("OPENAI_API_KEY")


def unsettled_gemini(yard: Yard) -> None:
    path = yard.home / ".gemini" / "settings.json"
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, "security": {}}))
    yard.env.pop("GEMINI_API_KEY")


FIRST_RUN: dict[str, dict[str, Any]] = {
    "claude": {"bare": True, "unsettle": unsettled_claude, "without": ("CLAUDE_CODE_SANDBOXED",)},
    "codex": {"bare": True, "unsettle": unsettled_codex},
    "gemini": {"bare": True, "unsettle": unsettled_gemini, "without": ("GEMINI_CLI_TRUST_WORKSPACE",)},
}


def plan(agent: str) -> list[tuple[str, tuple[int, int], Playing, dict[str, Any]]]:
    """What is recorded of an agent: name, size, situations, how it is started."""
    small, usual, large = SIZES.values()
    return [
        *((f"whole-{name}", size, whole, {}) for name, size in SIZES.items()),
        ("killed-busy", small, killed_busy, {}),
        ("killed-asking", usual, killed_asking, {}),
        ("killed-asking-large", large, killed_asking, {}),
        ("resumed", usual, resumed, {"after": before}),
        ("first-run", usual, first_run, FIRST_RUN[agent]),
        ("first-run-small", small, first_run, FIRST_RUN[agent]),
    ]


if __name__ == "__main__":
    asyncio.run(main())

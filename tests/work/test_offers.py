"""Offers, modes, models and lists of conversations with real processes: the scripted agent, native and over ACP."""

from pathlib import Path
from typing import Any

import pytest

from ostler.errors import OstlerError
from ostler.model import AnyEvent, Offer, Offered
from ostler.work import LiveSession, Ostler
from ostler.work.offers import is_command
from work.acp_yard import SCRIPTED, AcpYard, pid_of, turn
from work.scripted import Stable

COMMANDS = ["shout", "tidy"]


@pytest.fixture
def yard(tmp_path: Path) -> AcpYard:
    return AcpYard(tmp_path)


def offers(events: list[AnyEvent]) -> list[Offered]:
    return [event for event in events if isinstance(event, Offered)]


async def talk(live: LiveSession, prompt: str, **options: Any) -> tuple[Any, list[AnyEvent]]:
    events = [event async for event in live.run(prompt, transport="dialog", **options)]
    assert live.last is not None
    return live.last, events


# -- the scripted agent's own dialog ----------------------------------------------------------------


async def test_what_is_offered_is_told_once_and_kept(stable: Stable) -> None:
    async with stable.ostler() as o:
        live = await o.session("script", folder=str(stable.folder))
        assert o.offered(live.id) is None
        _, events = await talk(live, "[[say:one]]")
        (told,) = offers(events)
        assert told.quiet and [offer.id for offer in told.commands] == COMMANDS
        assert ([offer.id for offer in told.modes], told.mode) == (["default", "plan"], "default")
        assert ([offer.id for offer in told.models], told.model) == (["scripted", "scripted-fast"], "scripted")
        assert offers((await talk(live, "[[say:two]]"))[1]) == []
        (changed,) = offers((await talk(live, "[[say:three]]", mode="plan"))[1])
        assert changed.mode == "plan"
        assert o.offered(live.id) == changed


async def test_a_mode_holds_until_another_is_asked_for(stable: Stable) -> None:
    async with stable.ostler() as o:
        live = await o.session("script", folder=str(stable.folder))
        said = []
        for mode in (None, "plan", None, "default", None):
            envelope, _ = await talk(live, "[[echo:mode]]", mode=mode)
            said.append(envelope.text)
        assert said == ["default", "plan", "plan", "default", "default"]
        await talk(live, "[[say:x]]", mode="plan")
        await o.dialogs.close()  # a new process begins with the mode of its access
        assert (await talk(live, "[[echo:mode]]"))[0].text == "default"


async def test_the_first_turn_of_a_process_has_its_mode(stable: Stable) -> None:
    async with stable.ostler() as o:
        live = await o.session("script", folder=str(stable.folder))
        assert (await talk(live, "[[echo:mode]]", mode="plan"))[0].text == "plan"
        assert o.store.turns(live.id)[0].turn.mode == "plan"


@pytest.mark.parametrize(
    ("options", "kind", "hint"),
    [
        ({"mode": "plan"}, "unsupported", "--dialog"),
        ({"mode": "nonesuch", "transport": "dialog"}, "bad_request", "It has: default, plan"),
    ],
)
async def test_modes_that_cannot_be(stable: Stable, options: dict[str, Any], kind: str, hint: str) -> None:
    async with stable.ostler() as o:
        live = await o.session("script", folder=str(stable.folder))
        with pytest.raises(OstlerError) as refused:
            async for _ in live.run("[[say:x]]", **options):
                pass
        assert refused.value.kind == kind and hint in refused.value.hint
        assert o.sessions() == []  # nothing was begun


def test_which_prompts_are_commands() -> None:
    offered = Offered(commands=(Offer(id="memory"), Offer(id="memory show")))
    for prompt in ("/memory", "/memory ", "/memory add this", "/memory\nthis", "/memory show"):
        assert is_command(prompt, offered) and not is_command(prompt, None)
    for prompt in ("memory", "/memories", "/mem", " /memory", "//memory", "/"):
        assert not is_command(prompt, offered)


# -- over ACP ---------------------------------------------------------------------------------------


async def test_an_acp_agent_offers_commands_models_and_modes(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        _, events = await turn(o, live, "[[say:one]]")
        _, more = await turn(o, live, "[[say:two]]")
        told = offers([*events, *more])[-1]
        assert [offer.id for offer in told.commands] == COMMANDS
        assert ([offer.id for offer in told.modes], told.mode) == (["ask", "auto"], "ask")
        assert ([offer.id for offer in told.models], told.model) == (["scripted", "scripted-fast"], "scripted")


async def test_with_full_access_a_mode_of_the_agent_is_set(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        envelope, events = await turn(o, live, "[[echo:mode]]", mode="auto")
        assert (envelope.text, offers(events)[-1].mode) == ("auto", "auto")
        assert (await turn(o, live, "[[echo:mode]]"))[0].text == "auto"
        pid = pid_of(o, live)
        envelope, _ = await turn(o, live, "[[echo:mode]]", mode="nonesuch")
        assert envelope.error is not None
        assert (envelope.error.kind, envelope.error.hint) == ("bad_request", "It has: ask, auto")
        assert (await turn(o, live, "[[echo:mode]]"))[0].text == "auto"
        assert pid_of(o, live) == pid


@pytest.mark.parametrize("access", ["read", "write"])
async def test_below_it_no_mode_is_known_to_be_safe(yard: AcpYard, access: Any) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o, access=access)
        with pytest.raises(OstlerError) as refused:
            await turn(o, live, "[[echo:mode]]", mode="auto")
        assert refused.value.kind == "denied"
        assert (await turn(o, live, "[[echo:mode]]"))[0].text == "ask"


async def test_a_model_that_there_is_not_leaves_the_dialog_as_it_was(yard: AcpYard) -> None:
    async with yard.ostler() as o:
        live = await yard.session(o)
        assert (await turn(o, live, "[[echo:model]]", model="scripted-fast"))[0].text == "scripted-fast"
        pid = pid_of(o, live)
        envelope, _ = await turn(o, live, "[[echo:model]]", model="nonesuch")
        assert envelope.error is not None
        assert (envelope.error.kind, envelope.error.hint) == ("bad_request", "It has: scripted, scripted-fast")
        assert "mine has no model 'nonesuch'" in envelope.error.message
        assert (await turn(o, live, "[[echo:model]]", model="scripted-fast"))[0].text == "scripted-fast"
        assert pid_of(o, live) == pid


# -- lists ------------------------------------------------------------------------------------------


async def remembered(yard: AcpYard, o: Ostler, prompts: list[str], folder: Path) -> set[str]:
    """Conversations that the agent keeps and ostler forgets."""
    ids = set()
    for prompt in prompts:
        live = await o.session("mine", folder=str(folder), access="full")
        await turn(o, live, prompt)
        ids.add(live.row.agent_session)
        await o.dialogs.close()
        await o.remove(live.id)
    return ids  # type: ignore[return-value]


async def test_conversations_are_listed_by_the_agent_itself(yard: AcpYard) -> None:
    elsewhere = yard.base / "elsewhere"
    elsewhere.mkdir()
    async with yard.ostler() as o:
        here = await remembered(yard, o, [f"[[say:{n}]] palomino" for n in range(5)], yard.folder)
        there = await remembered(yard, o, ["[[say:x]]"], elsewhere)
        adopted = await o.adopt("mine", folder=str(yard.folder))
        assert {row.agent_session for row in adopted} == here  # in three pages
        assert {row.folder for row in adopted} == {str(yard.folder)} and "palomino" in adopted[0].title
        assert {row.agent_session for row in await o.adopt("mine")} == there
        again = await o.session(session=adopted[0].id)
        envelope, _ = await turn(o, again, "[[history]]", access="full")
        assert envelope.text == adopted[0].title
    assert not list((yard.base / "state" / "sessions").glob("list-*"))


@pytest.mark.parametrize(
    ("agent", "kind", "said"),
    [
        (("/bin/sh", "-c", "echo 'no agent here'; exit 3"), "unsupported", "is not an ACP agent"),
        (("/no/such/program",), "missing", "was not found or is not executable"),
        (("/bin/sh", "-c", "echo 'please log in' >&2; exit 1"), "unauthenticated", "please log in"),
    ],
)
async def test_who_cannot_be_asked(tmp_path: Path, agent: tuple[str, ...], kind: str, said: str) -> None:
    yard = AcpYard(tmp_path, agent)
    async with yard.ostler() as o:
        with pytest.raises(OstlerError) as refused:
            await o.adopt("mine")
        assert refused.value.kind == kind and said in refused.value.message


LISTLESS = """
import json, sys
for line in sys.stdin:
    frame = json.loads(line)
    result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
    print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": result}), flush=True)
"""


async def test_who_does_not_list(tmp_path: Path) -> None:
    yard = AcpYard(tmp_path, (SCRIPTED[0], "-c", LISTLESS))
    async with yard.ostler() as o:
        with pytest.raises(OstlerError) as refused:
            await o.adopt("mine")
        assert (refused.value.kind, refused.value.message) == ("unsupported", "mine cannot list its conversations")

"""What the agent offers behind `ostler acp`: its slash commands and models, told once they are known."""

from pathlib import Path

from acp_peer import Frame, Peer, peer_of

HELLO: Frame = {"protocolVersion": 1}


async def prompt(peer: Peer, session: str, said: str) -> str:
    blocks = [{"type": "text", "text": said}]
    result = await peer.call("session/prompt", sessionId=session, prompt=blocks)
    return str(result["stopReason"])


async def new(peer: Peer, folder: Path) -> str:
    return str((await peer.call("session/new", cwd=str(folder), mcpServers=[]))["sessionId"])


def commands(peer: Peer) -> list[list[str]]:
    told = [u for u in peer.updates() if u["sessionUpdate"] == "available_commands_update"]
    return [[command["name"] for command in update["availableCommands"]] for update in told]


def models(options: list[Frame]) -> list[str]:
    option = next(option for option in options if option["id"] == "model")
    return [each["value"] for each in option["options"]]


def told_models(peer: Peer) -> list[list[str]]:
    told = [u for u in peer.updates() if u["sessionUpdate"] == "config_option_update"]
    return [models(update["configOptions"]) for update in told]


async def test_commands_and_models_are_told_once_known(folder: Path) -> None:
    async with peer_of(folder, "claude", initialize=HELLO) as peer:
        session = await new(peer, folder)
        await prompt(peer, session, "[[say:one]]")
        assert commands(peer) == [["access", "model"], ["access", "model", "shout", "tidy"]]
        assert told_models(peer)[0] == ["default", "scripted", "scripted-fast"]
        await prompt(peer, session, "[[say:two]]")
        assert len(commands(peer)) == 2
        await peer.call("session/set_config_option", sessionId=session, configId="model", value="scripted-fast")
        assert await prompt(peer, session, "[[echo:model]]") == "end_turn"
        assert peer.said() == "onetwoscripted-fast"
        assert len(commands(peer)) == 2  # another model is no other offer


async def test_a_command_of_the_agent_is_sent_as_one(folder: Path) -> None:
    async with peer_of(folder, "claude", initialize=HELLO) as peer:
        session = await new(peer, folder)
        for said in ("[[say:.]]", "/shout [[echo:command]]", "/shouting [[echo:command]]", "/model"):
            assert await prompt(peer, session, said) == "end_turn"
        assert peer.said() == ".truefalsemodel: default"  # ours come first


async def test_another_connection_knows_them_from_the_journal(folder: Path) -> None:
    async with peer_of(folder, "claude", initialize=HELLO) as peer:
        session = await new(peer, folder)
        await prompt(peer, session, "[[say:one]]")
    async with peer_of(folder, "claude", initialize=HELLO) as peer:
        state = await peer.call("session/resume", sessionId=session, cwd=str(folder), mcpServers=[])
        assert models(state["configOptions"]) == ["default", "scripted", "scripted-fast"]
        await peer.until(lambda frame: "tidy" in str(frame))
        assert commands(peer) == [["access", "model", "shout", "tidy"]]
        await prompt(peer, session, "/shout [[echo:command]]")
        assert peer.said() == "true"

"""Conversations of a CLI, found in a HOME of real files."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.agents.adapter import Conversation
from ostler.agents.values import Record
from ostler.work.sessions import adopt
from ostler.work.sessions.adopt import Found, files_of, found


def conversation(path: str, records: Sequence[Record]) -> Conversation | None:
    if not records or records[0].get("kind") == "other":
        return None
    return Conversation(id=records[0]["id"], folder=records[0].get("cwd", ""), title=f"{len(records)} records")


AGENT = structs.replace(
    AGENTS["script"], name="claw", conversations=(".claw/*.jsonl", ".claw/*/info.json"), conversation=conversation
)


def keep(path: Path, *records: object, at: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    os.utime(path, (at, at))
    return str(path)


def test_newest_first(tmp_path: Path) -> None:
    old = keep(tmp_path / ".claw/a.jsonl", {"id": "a", "cwd": "/w"}, {"x": 1}, at=100)
    new = keep(tmp_path / ".claw/b.jsonl", {"id": "b"}, at=300)
    keep(tmp_path / ".claw/older-b.jsonl", {"id": "b"}, at=50)
    keep(tmp_path / ".claw/c.jsonl", {"id": "c", "kind": "other"}, at=200)
    expected = [
        Found(id="b", title="1 records", path=new, used_at=300.0),
        Found(id="a", folder="/w", title="2 records", path=old, used_at=100.0),
    ]
    assert found(AGENT, tmp_path, {}) == expected
    assert found(AGENT, tmp_path, {}, 1) == expected[:1]


def test_one_object_over_many_lines(tmp_path: Path) -> None:
    path = tmp_path / ".claw/d/info.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"id": "d", "cwd": "/w"}, indent=2))
    assert [(c.id, c.folder) for c in found(AGENT, tmp_path, {})] == [("d", "/w")]


def test_broken_files_hide_nothing(tmp_path: Path) -> None:
    keep(tmp_path / ".claw/good.jsonl", {"id": "good"}, at=1)
    keep(tmp_path / ".claw/no-id.jsonl", {"no": "id"}, at=2)
    keep(tmp_path / ".claw/number.jsonl", {"id": 5}, at=3)
    (tmp_path / ".claw/empty.jsonl").touch()
    (tmp_path / ".claw/binary.jsonl").write_bytes(bytes(range(256)))
    (tmp_path / ".claw/deep.jsonl").write_text("[" * 100_000)
    (tmp_path / ".claw/folder.jsonl").mkdir()
    os.mkfifo(tmp_path / ".claw/pipe.jsonl")
    os.symlink(tmp_path / ".claw/good.jsonl", tmp_path / ".claw/link.jsonl")
    os.symlink("/nowhere", tmp_path / ".claw/dangling.jsonl")
    assert [c.id for c in found(AGENT, tmp_path, {})] == ["good"]


def test_only_the_beginning_is_read(tmp_path: Path) -> None:
    keep(tmp_path / ".claw/many.jsonl", {"id": "many"}, *({"n": n} for n in range(1000)), at=2)
    long = [{"id": "long"}, {"n": "x" * adopt.MAX_BYTES}, {"n": 2}]
    keep(tmp_path / ".claw/long.jsonl", *long, at=1)
    assert [(c.id, c.title) for c in found(AGENT, tmp_path, {})] == [("many", "50 records"), ("long", "1 records")]


@pytest.mark.parametrize("agent", [structs.replace(AGENT, conversation=None), structs.replace(AGENT, conversations=())])
def test_agents_without_conversations(tmp_path: Path, agent: object) -> None:
    keep(tmp_path / ".claw/a.jsonl", {"id": "a"}, at=1)
    assert found(agent, tmp_path, {}) == []  # type: ignore[arg-type]


def test_home_that_is_not_there(tmp_path: Path) -> None:
    assert found(AGENT, tmp_path / "none", {}) == []


@pytest.mark.parametrize(
    ("name", "variable", "file"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", "projects/p/1.jsonl"),
        ("codex", "CODEX_HOME", "sessions/2026/11/16/rollout-1.jsonl"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/tmp/p/chats/session-1.jsonl"),
        ("qwen", "QWEN_HOME", "projects/p/chats/1.jsonl"),
        ("copilot", "COPILOT_HOME", "session-state/1/events.jsonl"),
        ("script", "OSTLER_SCRIPT_HOME", "sessions/1.ndjson"),
    ],
)
def test_a_variable_says_where_an_agent_keeps_them(tmp_path: Path, name: str, variable: str, file: str) -> None:
    path = keep(tmp_path / "elsewhere" / file, {}, at=1)
    assert list(files_of(AGENTS[name], tmp_path, {})) == []
    assert list(files_of(AGENTS[name], tmp_path, {variable: str(tmp_path / "elsewhere")})) == [(1.0, path)]


def test_every_agent_with_files_has_a_variable_for_them() -> None:
    assert [agent.name for agent in AGENTS.values() if agent.conversations and not agent.homes] == []

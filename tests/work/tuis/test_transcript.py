"""Following the file of a conversation: found late, read in pieces, told from those of others."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ostler.agents import AGENTS
from ostler.work.tuis.transcript import Transcript

GLOB = ".local/state/ostler-script/sessions/{}.ndjson"


def write(path: Path, *records: dict[str, Any], end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("\n".join(json.dumps(record) for record in records) + end)


def transcript(home: Path, **environ: str) -> Transcript:
    return Transcript(AGENTS["script"], str(home), environ)


def test_a_file_that_comes_late_is_read_from_its_beginning(tmp_path: Path) -> None:
    file, path = transcript(tmp_path), tmp_path / GLOB.format("abc")
    file.begin([GLOB.format("abc")])
    assert file.records() == []
    write(path, {"session": "abc"}, {"prompt": "go"})
    assert file.records() == [{"session": "abc"}, {"prompt": "go"}]
    assert file.records() == [] and file.path == str(path)


def test_what_stands_in_it_is_of_turns_before(tmp_path: Path) -> None:
    file, path = transcript(tmp_path), tmp_path / GLOB.format("abc")
    write(path, {"session": "abc"}, {"prompt": "one"})
    file.begin([GLOB.format("abc")])
    write(path, {"prompt": "two"})
    assert file.records() == [{"prompt": "two"}]
    write(path, {"prompt": "by hand"})
    file.begin([GLOB.format("abc")])
    assert file.records() == []


def test_half_a_line_waits_for_the_rest_and_nonsense_is_left_out(tmp_path: Path) -> None:
    file, path = transcript(tmp_path), tmp_path / GLOB.format("abc")
    file.begin([GLOB.format("abc")])
    write(path, {"session": "abc"}, {"half": 1}, end="")
    assert file.records() == [{"session": "abc"}]
    with path.open("a") as out:
        out.write('\nnot json\n["a list"]\n')
    assert file.records() == [{"half": 1}]


def test_a_new_conversation_is_told_from_others(tmp_path: Path) -> None:
    """Where the agent chooses its id: the newest file that was not there before, and is of this folder."""
    file = transcript(tmp_path)
    write(tmp_path / GLOB.format("old"), {"folder": "/f"})

    def fits(path: str, head: Sequence[dict[str, Any]]) -> bool:
        return bool(head) and head[0]["folder"] == "/f"

    file.begin([GLOB.format("*")], fits)
    write(tmp_path / GLOB.format("other"), {"folder": "/elsewhere"})
    assert file.records() == []
    write(tmp_path / GLOB.format("ours"), {"folder": "/f"})
    assert file.records() == [{"folder": "/f"}]
    file.begin([GLOB.format("*")])
    assert file.path == str(tmp_path / GLOB.format("ours"))


def test_a_variable_says_where_it_lies(tmp_path: Path) -> None:
    file = transcript(tmp_path / "home", OSTLER_SCRIPT_HOME=str(tmp_path / "own"))
    file.begin([GLOB.format("abc")])
    write(tmp_path / "own" / "sessions" / "abc.ndjson", {"session": "abc"})
    assert file.records() == [{"session": "abc"}]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "secret", {"secret": True})
    path = tmp_path / GLOB.format("abc")
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "secret")
    file = transcript(tmp_path)
    file.begin([GLOB.format("abc")])
    assert file.records() == []

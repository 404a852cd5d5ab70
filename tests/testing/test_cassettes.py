"""Cassettes: what was recorded is what is played, byte for byte, stream by stream, with the same end."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.errors import OstlerError
from ostler.model import Exit
from ostler.testing import Recorder, ScriptedAgent, cassette_agent
from ostler.testing.cassettes import Piece, argv_shape, load

ODD = b'{"type":"x"}\n\xff\xfe half \xc3'


def recorded(path: Path, pieces: list[tuple[str, bytes]], exit: Exit | None) -> Path:
    recorder = Recorder(path)
    recorder.begin(agent="claude", argv=("/opt/claude", "-p", "--model=opus"), prompt="do it")
    for stream, data in pieces:
        (recorder.stdout if stream == "out" else recorder.stderr)(data)
    recorder.close(exit)
    return path


def test_a_cassette_can_be_read_with_cat(tmp_path: Path) -> None:
    path = recorded(tmp_path / "c", [("out", "ü\n".encode()), ("err", b"warn\n"), ("out", ODD)], Exit(code=0))
    head, out, err, odd, end = [json.loads(line) for line in path.read_text().splitlines()]
    assert {k: v for k, v in head.items() if k != "at"} == {
        "ostler_cassette": 1,
        "agent": "claude",
        "argv": ["claude", "-p", "--model=…"],
        "prompt": "do it",
    }
    assert (out["out"], err["err"], list(odd), end["exit"]) == ("ü\n", "warn\n", ["at", "out64"], {"code": 0})
    assert 0 <= out["at"] <= end["at"]
    assert path.stat().st_mode & 0o777 == 0o600


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["out", "err"]), st.binary(min_size=1, max_size=50))), st.integers(0, 255))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[str, bytes]], code: int) -> None:
    cassette = load(recorded(tmp_path_factory.mktemp("c") / "c", pieces, Exit(code=code)))
    assert cassette.pieces == [Piece(0, stream, data) for stream, data in pieces]  # type: ignore[arg-type]
    assert (cassette.agent, cassette.prompt, cassette.exit) == ("claude", "do it", {"code": code})
    assert cassette.stdout == b"".join(data for stream, data in pieces if stream == "out")


@pytest.mark.parametrize(
    ("exit", "code"), [(Exit(code=0), 0), (Exit(code=3), 3), (Exit(signal=15), -15), (Exit(signal=9), -9), (None, -9)]
)
@pytest.mark.parametrize("how", ["flag", "environment", "scenario"])
def test_the_scripted_agent_replays_it(
    how: str, exit: Exit | None, code: int, tmp_path: Path, scripted_agent: ScriptedAgent, command: Any
) -> None:
    path = recorded(tmp_path / "c.ndjson", [("out", b"one\n"), ("err", b"two\n"), ("out", ODD)], exit)
    scenario = tmp_path / "s.toml"
    scenario.write_text('cassette = "c.ndjson"\n')
    flags = {"flag": [f"--cassette={path}"], "environment": [], "scenario": [f"--scenario={scenario}"]}[how]
    env = {"PATH": os.environ["PATH"], **scripted_agent.env}
    if how == "environment":
        env["OSTLER_SCENARIO"] = str(path)
    argv = command(*flags, "--resume=an-id-of-claude")
    done = subprocess.run(argv, input=b"x", env=env, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"one\n" + ODD, b"two\n")
    assert [launch.session for launch in scripted_agent.launches] == ["an-id-of-claude"]


def test_whose_records_they_are(tmp_path: Path) -> None:
    path = recorded(tmp_path / "c.ndjson", [], Exit(code=0))
    named = tmp_path / "named.toml"
    named.write_text('cassette = "c.ndjson"\n')
    plain = tmp_path / "plain.toml"
    plain.write_text("[[reply]]\nsteps = [{say = 'x'}]\n")
    assert [cassette_agent(p) for p in (path, named, plain)] == ["claude", "claude", "script"]
    with pytest.raises(OstlerError, match="cannot read the scenario"):
        cassette_agent(tmp_path / "missing")


def test_a_recording_that_was_cut_off_keeps_its_whole_lines(tmp_path: Path) -> None:
    path = recorded(tmp_path / "c", [("out", b"one\n"), ("out", b"two\n")], None)
    path.write_bytes(path.read_bytes()[:-5])
    cassette = load(path)
    assert (cassette.stdout, cassette.exit) == (b"one\n", None)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"{}\n", "is not a cassette"),
        (b"", "is not a cassette"),
        (b'{"ostler_cassette": 99}\n', "version 99"),
        (b'{"ostler_cassette": 1}\nnot json\n', "is damaged: not json"),
    ],
)
def test_what_is_no_cassette(raw: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(raw)
    with pytest.raises(OstlerError, match=said):
        load(tmp_path / "c")


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OstlerError, match="cannot write the recording") as caught:
        Recorder(tmp_path / "missing" / "c")
    assert caught.value.kind == "bad_request"


def test_closing_twice_and_writing_late_do_nothing(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "c")
    recorder.begin(agent="script")
    recorder.close(Exit(code=0))
    recorder.stdout(b"late")
    recorder.close(Exit(code=1))
    assert (load(tmp_path / "c").pieces, load(tmp_path / "c").exit) == ([], {"code": 0})


def test_the_shape_of_argv_holds_no_values() -> None:
    argv = ("/opt/bin/codex", "exec", "--json", "-c", 'model="secret"', "--cd=/home/me", "resume", "0199-AB", "-")
    assert argv_shape(argv) == ["codex", "exec", "--json", "-c", "…", "--cd=…", "resume", "…", "-"]

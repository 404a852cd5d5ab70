"""`ostler export`: a session and a run, as other programs read them."""

import json
import stat
from typing import Any

from cli.conftest import Shell
from export.test_otlp import receiver


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_session_in_each_format(shell: Shell) -> None:
    assert (
        shell("run", "claude", "[[run:echo seen]] [[say:done]]", "--name", "k3", "--access", "full", "-q").returncode
        == 0
    )
    lines = records(shell("export", "k3").stdout)
    assert [line["record"] for line in lines[:2]] == ["session", "turn"] and lines[-1]["kind"] == "ended"
    written = shell("export", "k3", "--format", "atif", "-o", "k3.json")
    assert (written.returncode, written.stdout) == (0, "")
    path = shell.folder / "k3.json"
    path.chmod(0o644)
    assert shell("export", "k3", "--format", "atif", "-o", "k3.json").returncode == 0
    made = json.loads(path.read_text())
    assert made["steps"][-1]["message"] == "done" and stat.S_IMODE(path.stat().st_mode) == 0o600
    head, *frames = records(shell("export", "k3", "--format", "asciicast").stdout)
    assert head["version"] == 2 and any("seen" in frame[2] for frame in frames)
    with receiver() as (address, taken):
        assert "sent 2 spans" in shell("export", "k3", "--format", "otel", "--endpoint", address).stdout
    ((_, request),) = taken
    names = [span.name for span in request.resource_spans[0].scope_spans[0].spans]
    assert names == ["invoke_agent claude", "execute_tool shell"]


def test_a_run_with_the_sessions_of_its_nodes(shell: Shell) -> None:
    (shell.folder / "p.toml").write_text('[nodes.one]\nagent = "claude"\nprompt = "[[say:first]]"\n')
    ran = shell("pipeline", "run", "p.toml", "--json")
    assert ran.returncode == 0, ran.stderr
    (run,) = json.loads(shell("pipeline", "list", "--json").stdout)
    lines = records(shell("export", run["id"]).stdout)
    assert [line["record"] for line in lines[:4]] == ["run", "node", "session", "turn"]
    (made,) = records(shell("export", run["id"], "--format", "atif").stdout)
    assert made["steps"][-1]["message"] == "first"
    path = shell.folder / "report.md"
    path.write_text("what was there before, and is longer than the report" * 100)
    path.chmod(0o644)
    for name in ("report.md", "new.md"):
        assert shell("pipeline", "report", run["id"], "-o", name).returncode == 0
        assert stat.S_IMODE((shell.folder / name).stat().st_mode) == 0o600
        assert (shell.folder / name).read_text() == shell("pipeline", "report", run["id"]).stdout
    assert shell("pipeline", "report", run["id"], "-o", "/dev/null").returncode == 0


def test_what_is_not_there_is_said(shell: Shell) -> None:
    refused = shell("export", "nobody")
    assert refused.returncode != 0 and "there is no session and no pipeline run 'nobody'" in refused.stderr
    assert "--endpoint and --content are for --format otel" in shell("export", "--content").stderr


def test_a_collector_that_does_not_answer_is_one_line(shell: Shell) -> None:
    """The exporter tries again and again, and would print each try."""
    assert shell("run", "claude", "[[say:done]]", "--name", "k3", "-q").returncode == 0
    address = "http://127.0.0.1:1/v1/traces"
    refused = shell("export", "k3", "--format", "otel", "--endpoint", address, env={"OTEL_EXPORTER_OTLP_TIMEOUT": "1"})
    assert refused.returncode == 1
    assert refused.stderr.splitlines() == [
        f"ostler: {address} did not accept the spans. Check the address, and that it speaks OTLP/HTTP"
    ]

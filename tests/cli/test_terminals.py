"""`ostler terminals`: lists, as a table and as JSON."""

import json

from cli.conftest import Shell
from waiting import wait_until


def test_live_ones_by_default_and_ended_ones_when_asked(shell: Shell) -> None:
    assert shell("terminals").stdout == "no live terminals (ended ones: ostler terminals --all)\n"
    assert shell("terminals", "--all").stdout == "no terminals\n"
    assert shell("exec", "--tty", "--name", "one", "--quiet", "--", "echo", "hi").returncode == 0
    assert shell("exec", "--tty", "--name", "two", "--quiet", "--", "exit 3").returncode == 3
    assert shell("run", "script", "[[say:hello]]", "--quiet", "--name", "turned").returncode == 0
    head, *rows = shell("terminals", "--all").stdout.splitlines()
    assert head.split() == ["TERMINAL", "SESSION", "NAME", "STATE", "SIZE", "BEGAN", "COMMAND"]
    assert [row.split("  ")[0].startswith("t-") for row in rows] == [True] * 3
    assert "output of a turn" in rows[0] and "100×30" in rows[0]
    assert "exit code 3" in rows[1] and "80×24" in rows[1]
    assert "echo hi" in rows[2] and "exit code 0" in rows[2]
    assert [row.split()[1] for row in rows] == ["turned", "two", "one"]  # a session by its name
    assert json.loads(shell("terminals", "--json").stdout) == []
    (one,) = json.loads(shell("terminals", "one", "--all", "--json").stdout)
    assert (one["argv"], one["exit"], one["state"], one["name"]) == (["echo", "hi"], {"code": 0}, "ended", "echo")


def test_kill_sends_a_signal_or_ends_the_program(shell: Shell) -> None:
    script = "trap 'touch interrupted' INT; touch ready; while :; do sleep 0.05; done"
    runs = shell.start("exec", "--tty", "--name", "loop", "--json", "--", "bash", "-c", script)
    wait_until((shell.folder / "ready").exists)
    (row,) = json.loads(shell("terminals", "--json").stdout)
    assert shell("kill", "--signal", "INT").stdout == f"sent INT to {row['id']}\n"  # the only one that runs
    wait_until((shell.folder / "interrupted").exists)
    assert shell("kill", row["id"], "--signal", "DANCE").returncode == 2
    assert shell("kill", row["id"]).stdout == f"ended {row['id']}\n"
    envelope = json.loads(runs.communicate()[0])
    assert (envelope["outcome"], envelope["exit"]) == ("failed", {"signal": 1})
    assert shell("kill", "t-none").returncode == 2


def test_an_unknown_session(shell: Shell) -> None:
    wrong = shell("terminals", "nobody")
    assert wrong.returncode == 2 and "no session is called 'nobody'" in wrong.stderr


def test_completion_knows_terminals_and_sessions(shell: Shell) -> None:
    assert shell("exec", "--tty", "--name", "done", "--quiet", "--", "true").returncode == 0
    (row,) = json.loads(shell("terminals", "--all", "--json").stdout)

    def completed(line: str, position: int) -> list[str]:
        env = {"_OSTLER_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(position)}
        return shell(env=env).stdout.split()

    assert completed("ostler attach don", 2) == ["plain,done"]
    assert completed("ostler attach t-", 2) == []  # it has ended
    assert completed("ostler play t-", 2) == [f"plain,{row['id']}"]
    assert completed("ostler terminals don", 2) == ["plain,done"]

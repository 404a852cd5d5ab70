"""The fixtures work in a project that only has ostler installed, and cost nothing to load."""

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]


def test_fixtures_in_someone_elses_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import json, subprocess, sys, urllib.request

        def test_model(scripted_model):
            scripted_model.scenario = "say:hello"
            body = json.dumps({"messages": [{"role": "user", "content": "x"}]}).encode()
            with urllib.request.urlopen(scripted_model.url + "/v1/messages", body) as answer:
                assert json.load(answer)["content"][0]["text"] == "hello"
            assert len(scripted_model.requests) == 1

        def test_agent(scripted_agent):
            scripted_agent.plays([{"say": "hi"}])
            argv = [sys.executable, "-m", "ostler.testing.agent"]
            done = subprocess.run(argv, input=b"x", env=scripted_agent.env, capture_output=True)
            assert json.loads(done.stdout.splitlines()[-1])["text"] == "hi"
            assert [launch.prompt for launch in scripted_agent.launches] == ["x"]
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_the_plugin_is_light() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import ostler.testing.fixtures;"
        "print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "ostler.testing.fixtures" in loaded
    assert not {"msgspec", "asyncio", "http.server", "ostler.testing.model", "ostler.model"} & set(loaded)

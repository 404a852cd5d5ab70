"""pytest fixtures that ship with ostler. Kept light: pytest loads this file at every start."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ostler.testing import Clock, ScriptedAgent, ScriptedModel


@pytest.fixture
def scripted_model() -> Iterator["ScriptedModel"]:
    """A running scripted model server; change `scenario` and `rules` as you need."""
    from ostler.testing.model import ScriptedModel

    with ScriptedModel() as model:
        yield model


@pytest.fixture
def scripted_agent(tmp_path_factory: pytest.TempPathFactory) -> "ScriptedAgent":
    """The scripted agent in a home of its own: `plays(...)` sets its scenario, `env` puts it in charge."""
    from ostler.testing.launched import ScriptedAgent

    return ScriptedAgent(Path(tmp_path_factory.mktemp("script-home")))


@pytest.fixture
def clock() -> Iterator["Clock"]:
    """The time of this process: `await clock.turn(600)`. Ask for it first, so that it is turned back last."""
    from ostler.testing.clock import Clock

    clock = Clock()
    yield clock
    clock.close()

from pathlib import Path

import pytest

from ostler.testing.launched import ScriptedAgent
from work.scripted import Stable


@pytest.fixture
def stable(tmp_path: Path, scripted_agent: ScriptedAgent) -> Stable:
    return Stable(tmp_path, scripted_agent)

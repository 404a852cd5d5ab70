"""What a run is started with."""

import pytest

from ostler.errors import OstlerError
from ostler.pipelines.inputs import complete_inputs
from ostler.pipelines.model import Input, Pipeline

FLOW = Pipeline(name="flow", nodes=(), inputs={"task": Input(description="what to do"), "test": Input(default="make")})


def test_defaults_stand_for_what_is_not_given() -> None:
    assert complete_inputs(FLOW, {"task": "x"}) == {"task": "x", "test": "make"}
    assert complete_inputs(FLOW, {"task": "", "test": "t"}) == {"task": "", "test": "t"}


def test_what_is_missing_or_unknown_is_named() -> None:
    with pytest.raises(OstlerError, match=r"flow needs the input task \(what to do\)"):
        complete_inputs(FLOW, {})
    with pytest.raises(OstlerError, match="flow has no input 'tsk'"):
        complete_inputs(FLOW, {"tsk": "x"})

"""What `on` says."""

import pytest

from ostler.errors import OstlerError
from ostler.machines.on_option import check_known, no_machine_called, placement_of

THERE = {"hawk": (), "owl": ("gpu", "big")}


@pytest.mark.parametrize(
    ("on", "fields"),
    [
        ("owl", {"machine": "owl"}),
        ("any", {"machine": "any"}),
        ("gpu", {"labels": ["gpu"]}),
        (" gpu, big ,", {"labels": ["gpu", "big"]}),
        ("owl,gpu", {"labels": ["owl", "gpu"]}),
    ],
)
def test_one_word_may_be_a_machine(on: str, fields: dict[str, object]) -> None:
    assert placement_of(on, THERE) == fields


@pytest.mark.parametrize("on", ["owl", "any", "gpu", "big,gpu"])
def test_what_is_known(on: str) -> None:
    check_known(on, THERE)


@pytest.mark.parametrize(
    ("on", "there", "said"),
    [
        (
            "heron",
            THERE,
            "no machine that has joined is called 'heron' or has this label. Choose one of: hawk, owl (gpu, big)",
        ),
        ("gpu,tpu", THERE, "no machine that has joined has the labels gpu, tpu. Choose one of"),
        ("any", {}, "the server of this machine has not joined other machines. Start it with: ostler up --join"),
    ],
)
def test_what_is_not(on: str, there: dict[str, tuple[str, ...]], said: str) -> None:
    with pytest.raises(OstlerError) as raised:
        check_known(on, there)
    assert raised.value.kind == "unsupported" and said in str(raised.value)


def test_a_name_that_no_machine_has() -> None:
    assert str(no_machine_called("heron", ["hawk", "owl"])).startswith(
        "no machine is called 'heron'. Known machines: hawk, owl"
    )
    assert no_machine_called("x" * 5000, []).hint == "No machine has joined yet: ostler up --join URL"
    assert len(no_machine_called("x" * 5000, []).message) < 200

"""Sessions and runs as spans."""

from export.samples import RUN, SESSION
from ostler.export.spans import spans


def test_turns_and_tools_of_a_session() -> None:
    turn, read, shell, failed = spans(SESSION, content=False)
    assert [span.name for span in (turn, read, shell, failed)] == [
        "invoke_agent claude",
        "execute_tool Read",
        "execute_tool Bash",
        "invoke_agent claude",
    ]
    assert {span.trace for span in (turn, read, shell, failed)} == {turn.trace} and len(turn.trace) == 32
    assert (turn.parent, read.parent, shell.parent) == ("", turn.id, turn.id) and len(turn.id) == 16
    assert turn.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "claude",
        "gen_ai.agent.name": "claude",
        "gen_ai.conversation.id": "s1",
        "gen_ai.response.model": "big",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "ostler.turn": "s1-t1",
        "ostler.access": "read",
        "ostler.outcome": "done",
        "ostler.cost_usd": 0.25,
    }
    assert (shell.start, shell.end, shell.error, read.error) == (103.0, 105.0, None, "failed")
    assert (failed.error, failed.attributes["error.type"]) == ("limited", "limited")


def test_content_is_left_out_unless_asked_for() -> None:
    told = str(spans(SESSION, content=False))
    assert "what is here" not in told and "b.txt" not in told and "a.txt" not in told
    told = str(spans(SESSION, content=True))
    assert "what is here" in told and "There is b.txt" in told and "no such file" in told


def test_a_run_is_the_parent_of_its_nodes() -> None:
    run, node, turn, *_ = spans(RUN, content=False)
    assert (run.name, node.name, turn.name) == ("invoke_workflow review", "node look", "invoke_agent claude")
    assert (run.parent, node.parent, turn.parent) == ("", run.id, node.id)
    assert run.attributes["gen_ai.workflow.name"] == "review"
    assert len({span.id for span in spans(RUN, content=False)}) == 6  # what never began is left out


def test_the_same_thing_has_the_same_ids() -> None:
    assert spans(RUN, content=False) == spans(RUN, content=False)

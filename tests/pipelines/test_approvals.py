"""What a person is asked before a node runs."""

import pytest

from ostler.pipelines.approvals import approved, decided, proposed_prompt, question
from ostler.pipelines.expressions import BadExpression
from ostler.pipelines.model import Approval, Node

TURN = Node(name="plan", agent="claude", prompt="Plan {{ inputs.task }}\n")
COMMAND = Node(name="ship", command=("make", "{{ inputs.task }}"))
GATE = Node(name="ask", gate="Ship {{ inputs.task }}?")
TOUCH = Node(name="touch", command=("touch", "{{ item }}"), each="['a', 'b']")
EACH = Node(name="look", agent="claude", prompt="Look at {{ item }}", each="['a', 'b']")
VALUES = {"inputs": {"task": "the farm"}}
ITEMS = [{"item": "a"}, {"item": "b"}]


def test_all_that_would_run_is_in_the_question() -> None:
    assert question(TURN, [VALUES]) == "Run plan?\n\nPlan the farm"
    assert question(COMMAND, [VALUES]) == "Run ship?\n\n    make 'the farm'"
    assert question(GATE, [VALUES]) == "Ship the farm?"
    assert question(EACH, ITEMS) == "Run look for each of these?\n\n1. Look at a\n\n2. Look at b"
    assert question(TOUCH, ITEMS) == "Run touch for each of these?\n\n    touch a\n\n    touch b"
    many = [{"item": "x" * 100_000}] * 10
    assert question(EACH, many).count("\n\n") == 10 and 200_000 < len(question(EACH, many)) < 200_200
    with pytest.raises(BadExpression):
        question(Node(name="x", gate="{{ inputs[0] }}"), [VALUES])


def test_the_prompt_that_a_person_may_change() -> None:
    assert proposed_prompt(TURN, question(TURN, [VALUES])) == "Plan the farm"
    assert proposed_prompt(EACH, question(EACH, ITEMS)) == "Look at {{ item }}"
    assert proposed_prompt(COMMAND, question(COMMAND, [VALUES])) == proposed_prompt(TURN, "") == ""


def test_what_comes_of_the_answer() -> None:
    denied = decided(TURN, Approval(go=False, by="ann"))
    assert denied is not None and (denied.state, denied.error) == ("cancelled", "denied by ann")
    answered = decided(TURN, Approval(go=True, answer="my own"))
    assert answered is not None and (answered.state, answered.text) == ("done", "my own")
    assert answered.notices == ("approved by a person",)
    passed = decided(GATE, Approval(go=True))
    assert passed is not None and passed.ok
    assert decided(TURN, Approval(go=True)) is None
    assert approved(TURN, Approval(go=True)) is TURN
    assert approved(TURN, Approval(go=True, prompt="other")).prompt == "other"

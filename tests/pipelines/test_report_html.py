"""A run as a page: what agents wrote stays text."""

from ostler.pipelines.model import Node, NodeResult, NodeRow, Pipeline, RunRow
from ostler.pipelines.report_html import report_html

RUN = RunRow(
    id="r1",
    pipeline=Pipeline(name="<b>flow", nodes=(Node(name="plan", agent="claude", prompt="p"),)),
    folder="/w",
    created_at=10.0,
    ended_at=30.0,
    state="done",
)


def test_a_page_has_the_table_and_nothing_that_runs() -> None:
    text = "<script>alert(1)</script> **bold** [x](javascript:alert(1)) ![i](http://elsewhere/p.png)"
    result = NodeResult(state="done", text=text, diff="+```\n+x")
    row = NodeRow(run="r1", node="plan", state="done", started_at=1.0, ended_at=2.0, result=result)
    page = report_html(RUN, {"plan": row})
    assert page.startswith("<!doctype html>") and "<title>&lt;b&gt;flow: done · r1</title>" in page
    assert "<td>plan</td>" in page and "<strong>bold</strong>" in page
    assert "<script" not in page and 'href="javascript' not in page and "<img" not in page
    assert '<code class="language-diff">+```\n+x\n</code>' in page

"""A run that begins with the results of another one, up to a node. Pure."""

from collections.abc import Mapping

from msgspec import structs

from ostler.errors import OstlerError
from ostler.pipelines.model import NodeResult, NodeRow, Pipeline, RunRow
from ostler.pipelines.parse import check_pipeline


def forked_run(
    old: RunRow, nodes: Mapping[str, NodeRow], node: str, prompt: str | None = None
) -> tuple[Pipeline, dict[str, NodeResult]]:
    """The pipeline, maybe with another prompt for the node, and the results that are taken over.

    Raises not_found for a node that it does not have, bad_request if one that is to be taken over has no result.
    """
    pipeline = old.pipeline
    pipeline.find(node)
    again = {node, *pipeline.after(node)}
    given = {name: row.result for name, row in nodes.items() if name not in again and row.result is not None}
    for need in pipeline.node(node).needs:
        if need not in given or given[need].stops:
            hint = f"Fork from {need} instead"
            raise OstlerError("bad_request", f"{node} needs {need}, which did not end well in {old.id}", hint)
    if prompt is not None:
        if not pipeline.node(node).agent:
            raise OstlerError("bad_request", f"{node} has no prompt: it is not a turn of an agent")
        changed = [structs.replace(each, prompt=prompt) if each.name == node else each for each in pipeline.nodes]
        pipeline = check_pipeline(old.id, structs.replace(pipeline, nodes=tuple(changed)))
    return pipeline, {name: result for name, result in given.items() if not result.stops}

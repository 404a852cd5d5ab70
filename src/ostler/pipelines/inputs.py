"""The inputs that a run is started with. Pure."""

from collections.abc import Mapping

from ostler.errors import OstlerError, quoted
from ostler.pipelines.model import Pipeline


def complete_inputs(pipeline: Pipeline, given: Mapping[str, str]) -> dict[str, str]:
    """What was given, and defaults for the rest. Raises bad_request for one that is unknown or missing."""
    for name in given:
        if name not in pipeline.inputs:
            known = ", ".join(pipeline.inputs) or "none"
            raise OstlerError(
                "bad_request", f"{pipeline.name} has no input {quoted(name[:100])}", f"Its inputs: {known}"
            )
    for name, wanted in pipeline.inputs.items():
        if name not in given and wanted.default is None:
            what = f" ({wanted.description})" if wanted.description else ""
            raise OstlerError(
                "bad_request",
                f"{pipeline.name} needs the input {name}{what}",
                f"Give it: --input {name}=… (over HTTP: in `inputs`)",
            )
    return {name: given.get(name, wanted.default or "") for name, wanted in pipeline.inputs.items()}

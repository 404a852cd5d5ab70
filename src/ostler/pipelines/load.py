"""Finds a pipeline: a TOML file, a Python file, or one of the examples that ship with ostler."""

from importlib import resources
from pathlib import Path
from typing import IO

from ostler.errors import OstlerError, quoted
from ostler.pipelines.model import Pipeline
from ostler.pipelines.parse import check_pipeline, parse_pipeline
from ostler.settings import digest, nearest

_MAX = 1 << 20  # bytes of a file


def examples() -> dict[str, str]:
    """The examples that ship with ostler: their names, and their text."""
    folder = resources.files("ostler.pipelines") / "examples"
    return {
        file.name.removesuffix(".toml"): file.read_text() for file in folder.iterdir() if file.name.endswith(".toml")
    }


def load_pipeline(what: str, sha256: str = "") -> Pipeline:
    """Raises not_found, and bad_request with file and line for what is wrong in it.

    With `sha256` the file must have this content: denied, where it has another.
    """
    path = Path(what)
    if path.suffix == ".py" and path.is_file():
        return _from_python(path)
    if path.is_file():
        with path.open("rb") as opened:
            data = read_pipeline_file(what, opened)
        if sha256 and digest(data) != sha256:
            hint = f"Read it, then run `ostler pipeline schedule {what}` again"
            raise OstlerError("denied", f"{what} has changed since its schedule was switched on", hint)
        return parse_pipeline(what, pipeline_text(what, data))
    shipped = examples()
    if what in shipped:
        return parse_pipeline(f"{what}.toml", shipped[what])
    guess = nearest(what, shipped)
    hint = (
        f"Did you mean the example {guess}?" if guess else f"Give a file, or an example: {', '.join(sorted(shipped))}"
    )
    raise OstlerError("not_found", f"there is no pipeline {quoted(what)}", hint)


def read_pipeline_file(name: str, opened: IO[bytes]) -> bytes:
    """Raises bad_request where it is too large."""
    data = opened.read(_MAX + 1)
    if len(data) > _MAX:
        raise OstlerError("bad_request", f"{name} is larger than a pipeline file may be (1 MB)")
    return data


def pipeline_text(name: str, data: bytes) -> str:
    """Raises bad_request."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise OstlerError("bad_request", f"{name} is not a text file in UTF-8") from None


def _from_python(path: Path) -> Pipeline:
    """What a file calls `pipeline`. It is run: like a Makefile, it is the user's own."""
    import runpy

    try:
        found = runpy.run_path(str(path)).get("pipeline")
    except Exception as error:
        raise OstlerError("bad_request", f"{path} failed: {type(error).__name__}: {error}") from error
    if not isinstance(found, Pipeline):
        hint = "Write: pipeline = Pipeline(name=…, nodes=(Node(…), …))"
        raise OstlerError("bad_request", f"{path} does not define a pipeline", hint)
    return check_pipeline(str(path), found)

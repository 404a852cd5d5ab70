"""Finds a pipeline: a TOML file, a Python file, or one of the examples that ship with ostler."""

from importlib import resources
from pathlib import Path

from ostler.errors import OstlerError
from ostler.pipelines.model import Pipeline
from ostler.pipelines.parse import check_pipeline, parse_pipeline
from ostler.settings import nearest

_MAX = 1 << 20


def examples() -> dict[str, str]:
    """The examples that ship with ostler: their names, and their text."""
    folder = resources.files("ostler.pipelines") / "examples"
    return {
        file.name.removesuffix(".toml"): file.read_text() for file in folder.iterdir() if file.name.endswith(".toml")
    }


def load_pipeline(what: str) -> Pipeline:
    """Raises not_found, and bad_request with file and line for what is wrong in it."""
    path = Path(what)
    if path.suffix == ".py" and path.is_file():
        return _from_python(path)
    if path.is_file():
        if path.stat().st_size > _MAX:
            raise OstlerError("bad_request", f"{what} is larger than a pipeline file may be (1 MB)")
        try:
            return parse_pipeline(what, path.read_text())
        except UnicodeDecodeError:
            raise OstlerError("bad_request", f"{what} is not a text file in UTF-8") from None
    shipped = examples()
    if what in shipped:
        return parse_pipeline(f"{what}.toml", shipped[what])
    guess = nearest(what, shipped)
    hint = (
        f"Did you mean the example {guess}?" if guess else f"Give a file, or an example: {', '.join(sorted(shipped))}"
    )
    raise OstlerError("not_found", f"there is no pipeline {what!r}", hint)


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

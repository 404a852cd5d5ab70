"""What the page takes from Python: its types are those of the OpenAPI document, the names of inputs those of agents."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def made() -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_types", ROOT / "tools" / "page_types.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_they_are_up_to_date(made: ModuleType) -> None:
    assert made.TARGET.read_text() == made.generated(), "run `make tables`"
    assert made.NAMES.read_text() == made.generated_names(), "run `make tables`"
    assert made.FACTS.read_text() == made.generated_facts(), "run `make tables`"


def test_each_kind_of_schema_has_its_type(made: ModuleType) -> None:
    ref = {"$ref": "#/components/schemas/Exit"}
    for schema, type in (
        ({"type": "string", "maxLength": 3}, "string"),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}, {"type": "null"}]}, "number | null"),
        ({"enum": ["a", "b"]}, '"a" | "b"'),
        ({"type": "array", "items": {"anyOf": [ref, {"type": "null"}]}}, "(Exit | null)[]"),
        ({"type": "array", "prefixItems": [{"type": "string"}, ref], "items": False}, "[string, Exit]"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "Record<string, boolean>"),
        ({"default": None}, "unknown"),
    ):
        assert made.type_of(schema) == type
    struct = {
        "description": "Two\n\n    lines.",
        "type": "object",
        "properties": {"id": {"type": "string"}, "exit": ref},
        "required": ["id"],
    }
    assert made.declaration("Row", struct) == (
        "/** Two lines. */\nexport interface Row {\n  id: string;\n  exit?: Exit;\n}\n"
    )


def test_the_names_of_inputs_are_lists(made: ModuleType) -> None:
    assert 'export const COMMAND_NAMES = ["command", "cmd"];\n' in made.generated_names()


def test_the_facts_of_transports_are_lists(made: ModuleType) -> None:
    assert 'export const DIALOGS: string[] = ["dialog"];\n' in made.generated_facts()


def test_what_comes_over_websockets_and_streams_is_in_it(made: ModuleType) -> None:
    types = made.TARGET.read_text()
    for name in ("AnyEvent", "AnyTerminalMessage", "AnyViewerMessage", "JournalRequest", "LiveEvent"):
        assert f"export type {name} = " in types
    assert '{ event: "gone"; data: Removed }' in types

"""The OpenAPI document: valid, complete, and right about unions, streams, errors and what is always there."""

import re
from typing import Any, get_args

import pytest
import schemathesis
from jsonschema import Draft202012Validator

from ostler.model import AnyEvent
from ostler.server.app import ROUTES
from ostler.server.openapi import document
from ostler.terminal.viewer_protocol import AnyTerminalMessage, AnyViewerMessage
from server.conftest import Yard
from server.test_sessions import make, run


@pytest.fixture(scope="module")
def doc() -> dict[str, Any]:
    return document(ROUTES, "ostler_test")


def operations(doc: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(method, path): each for path, methods in doc["paths"].items() for method, each in methods.items()}


def test_it_is_openapi_3_1(doc: dict[str, Any]) -> None:
    assert doc["openapi"] == "3.1.0"
    schemathesis.openapi.from_dict(doc).validate()
    for schema in doc["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    ids = [each["operationId"] for each in operations(doc).values()]
    assert len(ids) == len(set(ids))


def test_every_reference_leads_somewhere(doc: dict[str, Any]) -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(ref := value.get("$ref"), str):
                target: Any = doc
                for part in ref.removeprefix("#/").split("/"):
                    target = target[part]
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk(doc)


def test_every_route_is_documented(doc: dict[str, Any]) -> None:
    routes = {(route.method.lower(), route.path) for route in ROUTES if route.method != "WEBSOCKET"}
    assert set(operations(doc)) == routes and len(routes) > 30
    assert all(each["summary"] and each["tags"] for each in operations(doc).values())


def test_events_are_told_apart_by_their_kind(doc: dict[str, Any]) -> None:
    union = doc["components"]["schemas"]["AnyEvent"]
    kinds = {event.__struct_config__.tag: f"#/components/schemas/{event.__name__}" for event in get_args(AnyEvent)}
    assert union["discriminator"] == {"propertyName": "kind", "mapping": kinds}
    assert [each["$ref"] for each in union["oneOf"]] == list(kinds.values())
    assert doc["components"]["schemas"]["EventPage"]["properties"]["items"] == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/AnyEvent"},
    }
    for kind, ref in kinds.items():
        event = doc["components"]["schemas"][ref.split("/")[-1]]
        assert event["properties"]["kind"] == {"enum": [kind]}
        assert {"kind", "seq", "at", "turn"} <= set(event["required"])
    typed = doc["components"]["schemas"]["Typed"]["properties"]["message"]
    assert typed["discriminator"]["propertyName"] == "kind" and len(typed["oneOf"]) == 6


def test_streams_files_and_bodies_have_their_own_types(doc: dict[str, Any]) -> None:
    def good(method: str, path: str) -> dict[str, Any]:
        answers = operations(doc)[method, path]["responses"]
        return dict(next(each.get("content", {}) for status, each in answers.items() if status.startswith("2")))

    events = good("get", "/api/sessions/{session}/events")
    assert events["application/json"]["schema"] == {"$ref": "#/components/schemas/EventPage"}
    assert events["text/event-stream"] == {
        "schema": {"type": "string"},
        "x-itemSchema": {"properties": {"data": {"$ref": "#/components/schemas/AnyEvent"}}},
    }
    assert good("get", "/api/live") == {
        "text/event-stream": {
            "schema": {"type": "string"},
            "x-itemSchema": {"$ref": "#/components/schemas/LiveEvent"},
        }
    }
    assert list(good("get", "/api/terminals/{terminal}/recording")) == ["application/x-asciicast"]
    assert "application/octet-stream" in good("get", "/api/turns/{turn}/artifacts/{name}")
    assert list(operations(doc)["put", "/api/uploads/{name}"]["requestBody"]["content"]) == ["application/octet-stream"]
    assert good("delete", "/api/sessions/{session}") == {}


def test_the_messages_of_websockets_are_described(doc: dict[str, Any]) -> None:
    sockets = {route.path: route.right for route in ROUTES if route.method == "WEBSOCKET"}
    described = doc["x-websockets"]
    assert {path: each["x-right"] for path, each in described.items()} == sockets
    assert all(each["summary"] for each in described.values())
    of_terminal = described["/api/terminals/{terminal}/ws"]
    assert of_terminal["hears"] == {"$ref": "#/components/schemas/AnyViewerMessage"}
    assert of_terminal["tells"] == {"$ref": "#/components/schemas/AnyTerminalMessage"}
    assert described["/api/live/ws"]["hears"] == {"$ref": "#/components/schemas/JournalRequest"}
    schemas = doc["components"]["schemas"]
    for name, union in (("AnyViewerMessage", AnyViewerMessage), ("AnyTerminalMessage", AnyTerminalMessage)):
        kinds = [struct.__struct_config__.tag for struct in get_args(union)]
        assert list(schemas[name]["discriminator"]["mapping"]) == kinds
    assert schemas["FactsMessage"]["required"] == ["kind"], "what is not new is left out"
    assert set(schemas["Leased"]["required"]) == set(schemas["Leased"]["properties"])


def test_every_error_is_a_problem(doc: dict[str, Any]) -> None:
    for each in operations(doc).values():
        bad = {status: answer for status, answer in each["responses"].items() if not status.startswith("2")}
        assert {"400", "401", "403", "421", "5XX"} <= set(bad)
        assert all(re.fullmatch(r"#/components/responses/\d+", answer["$ref"]) for answer in bad.values())
    for answer in doc["components"]["responses"].values():
        assert list(answer["content"]) == ["application/problem+json"]


def test_who_may_ask(doc: dict[str, Any]) -> None:
    assert doc["security"] == [{"token": []}, {"cookie": []}]
    assert doc["components"]["securitySchemes"]["cookie"]["name"] == "ostler_test"
    open_ones = [path for (_, path), each in operations(doc).items() if "security" in each]
    assert open_ones == ["/api/login"]


def test_what_is_always_told_is_required(doc: dict[str, Any]) -> None:
    schemas = doc["components"]["schemas"]
    for name in ("SessionView", "TurnView", "TerminalRow", "Envelope", "AgentReport", "ProblemAnswer", "Me"):
        assert set(schemas[name]["required"]) == set(schemas[name]["properties"]), name
    assert schemas["Usage"].get("required", []) == [], "leaves out what is not known"
    assert schemas["NewSession"]["required"] == ["agent"]
    assert schemas["NewTurn"]["required"] == ["prompt"]
    for name in ("NewSession", "NewTurn", "TurnLimits", "AttachmentRequest", "NewTerminal", "Login"):
        assert schemas[name]["additionalProperties"] is False, name


def test_nobody_is_asked_to_send_null_in_an_address(doc: dict[str, Any]) -> None:
    for each in operations(doc).values():
        for parameter in each["parameters"]:
            assert isinstance(parameter["schema"]["type"], str) and parameter["schema"]["type"] != "null"
            assert None not in parameter["schema"].get("enum", [])


async def test_the_right_that_is_documented_is_the_one_that_is_needed(yard: Yard, doc: dict[str, Any]) -> None:
    """Of everything: who has less is denied; who has it is told something else, even if it is that nothing is there."""
    order = ["view", "type", "admin"]
    for (method, path), each in operations(doc).items():
        if path in ("/api/login", "/api/live"):
            continue
        url = re.sub(r"\{\w+\}", "nobody", path)
        octets = "octet-stream" in str(each.get("requestBody"))
        sent = {"content": b"x" if octets else b"{}", "headers": {"content-type": OCTETS if octets else JSON}}
        sent = {} if method == "get" else sent
        for right in order:
            async with yard.as_(right) as client:  # type: ignore[arg-type]
                answer = await client.request(method, url, **sent)
            enough = order.index(right) >= order.index(each["x-right"])
            assert (answer.status_code == 403) is not enough, (method, path, right, answer.text)


OCTETS, JSON = "application/octet-stream", "application/json"


async def test_it_is_served_and_right_about_what_is_told(yard: Yard) -> None:
    async with yard.as_(None) as nobody, yard.as_("view") as viewer:
        assert (await nobody.get("/api/openapi.json")).status_code == 401
        doc = (await viewer.get("/api/openapi.json")).json()
    schemathesis.openapi.from_dict(doc).validate()
    assert doc["components"]["securitySchemes"]["cookie"]["name"] == yard.auth.cookie
    session = (await make(yard))["id"]
    turn = (await run(yard, session, "[[say:hi]] [[tool:Bash]]"))["id"]
    for path, name in (
        (f"/api/sessions/{session}", "SessionView"),
        ("/api/sessions", "SessionList"),
        (f"/api/sessions/{session}/turns", "TurnList"),
        (f"/api/sessions/{session}/events", "EventPage"),
        (f"/api/turns/{turn}", "TurnView"),
        (f"/api/turns/{turn}/envelope", "Envelope"),
        (f"/api/turns/{turn}/artifacts", "ArtifactList"),
        ("/api/terminals", "TerminalList"),
        ("/api/agents", "AgentList"),
        ("/api/me", "Me"),
        ("/api/sessions/nobody", "ProblemAnswer"),
    ):
        schema = {"$ref": f"#/components/schemas/{name}", "components": doc["components"]}
        told = (await yard.client.get(path)).json()
        assert [error.message for error in Draft202012Validator(schema).iter_errors(told)] == [], path

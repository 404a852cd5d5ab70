"""The smallest value that fits a JSON schema: what a scripted model or agent answers when asked for one."""

from typing import Any


def smallest(schema: Any) -> Any:
    """An instance of `schema`: required keys only, the last of an enum, the minimum of a number."""
    if not isinstance(schema, dict):
        return "scripted"
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][-1]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return smallest(schema[key][0])
    return _of_type(_type(schema), schema)


def _type(schema: dict[str, Any]) -> str:
    named = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(named, list):
        named = named[0] if named else "string"
    return str(named).lower()  # Gemini writes its types in capitals


def _of_type(type: str, schema: dict[str, Any]) -> Any:
    match type:
        case "object":
            properties = schema.get("properties") or {}
            keys = schema.get("required") or list(properties)
            return {key: smallest(properties.get(key, {})) for key in keys}
        case "array":
            return [smallest(schema.get("items", {}))] * max(1, schema.get("minItems", 1))
        case "integer" | "number":
            return schema.get("minimum", schema.get("maximum", 7))
        case "boolean":
            return True
        case "null":
            return None
    return "scripted".ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]

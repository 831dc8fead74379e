"""Shortens JSON schemas for agents: removes everything that carries no information."""

from typing import Any

Schema = dict[str, Any]

SCHEMA_MAPS = ("properties", "$defs")
"""Keywords whose values map names to schemas; their keys are not keywords."""

SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


LEAN: Schema = {
    "type": "object",
    "properties": {
        "success": {"type": "boolean"},
        "message": {"type": ["string", "null"]},
        "error": {"type": ["string", "null"]},
    },
    "required": ["success"],
}
"""What every answer contains, in both forms."""


def inlined(schema: Schema) -> Schema:
    """Return an equivalent schema with its definitions inlined; none of them is recursive.

    Not every client follows references. FastMCP would do the same at the first `tools/list`, for which it imports an
    HTTP client.
    """
    definitions = schema.get("$defs", {})

    def filled(part: Any) -> Any:
        if isinstance(part, list):
            return [filled(each) for each in part]
        if not isinstance(part, dict):
            return part
        own = {key: filled(value) for key, value in part.items() if key != "$ref"}
        if "$ref" not in part:
            return own
        return filled(definitions[part["$ref"].removeprefix("#/$defs/")]) | own

    whole: Schema = filled({key: value for key, value in schema.items() if key != "$defs"})
    return whole


def compact(schema: Schema) -> Schema:
    """Return a shorter equivalent schema: types as a list instead of `anyOf`, and no empty keywords.

    A default of null or 0 is one: an offset starts at 0 whether or not the schema says so.
    """
    kept = {key: _compact_keyword(key, value) for key, value in schema.items() if not _says_nothing(key, value)}
    return _with_type_list(kept)


def _says_nothing(key: str, value: object) -> bool:
    is_nothing = value is None or (value == 0 and not isinstance(value, bool))
    return (key == "default" and is_nothing) or (key == "additionalProperties" and isinstance(value, bool))


def _compact_keyword(key: str, value: Any) -> Any:
    if key in SCHEMA_MAPS:
        return {name: compact(schema) for name, schema in value.items()}
    if key in SCHEMA_LISTS:
        return [compact(schema) for schema in value]
    if key in ("items", "additionalProperties"):
        return compact(value)
    return value


def _with_type_list(schema: Schema) -> Schema:
    """Merge alternatives, of which at most one has more than a type, into one schema with a list of types."""
    arms = schema.get("anyOf", [])
    spoken = [arm for arm in arms if set(arm) != {"type"}]
    if not arms or len(spoken) > 1 or any("type" not in arm or "enum" in arm or "const" in arm for arm in arms):
        return schema
    types = [arm["type"] for arm in arms]
    merged = spoken[0] if spoken else {}
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**merged, **rest, "type": types}


def without_null(schema: Schema) -> Schema:
    """Return a tool's input schema in which nullable parameters are shown as optional only.

    A null counts as omitted. Saying so for each of a hundred parameters would cost an agent about 260 tokens.
    """
    return {**schema, "properties": {name: _not_null(one) for name, one in schema.get("properties", {}).items()}}


def _not_null(schema: Schema) -> Schema:
    if not isinstance(schema.get("type"), list):
        return schema
    types = [name for name in schema["type"] if name != "null"]
    return {**schema, "type": types[0] if len(types) == 1 else types}


def admitting_failures(schema: Schema) -> Schema:
    """Return an output schema that failed calls match too: fields that only a success has may be null."""
    required = schema.get("required", [])
    nullable = {name: {"anyOf": [schema["properties"][name], {"type": "null"}]} for name in required}
    return {**schema, "properties": schema["properties"] | nullable, "required": ["success"]}

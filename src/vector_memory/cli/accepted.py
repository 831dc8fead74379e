"""Which values settings accept, for messages and documentation, and which given values they refuse."""

from typing import Any

from pydantic import ValidationError

from vector_memory.settings import HttpOptions, ServerOptions, Settings


def accepted(name: str) -> str:
    """Describe the values that the setting `name` accepts."""
    model = next(model for model in (Settings, ServerOptions, HttpOptions) if name in model.model_fields)
    schema = model.model_json_schema()
    match _resolved(schema["properties"][name], schema):
        case {"enum": [*others, last]}:
            return f"{', '.join(others)} or {last}"
        case {"type": "boolean"}:
            return "true or false (1 or 0, yes or no)"
        case {"type": "integer" | "number"} as numbers:
            return _accepted_numbers(numbers)
        case {"anyOf": _}:
            return "a path"
        case _:
            return "a name"


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a reference points to, or the schema itself."""
    reference = schema.get("$ref", "").removeprefix("#/$defs/")
    resolved: dict[str, Any] = root["$defs"][reference] if reference else schema
    return resolved


def _accepted_numbers(schema: dict[str, Any]) -> str:
    noun = "an integer" if schema["type"] == "integer" else "a number"
    if "maximum" in schema:
        return f"{noun} from {schema['minimum']} to {schema['maximum']}"
    return f"{noun}, {schema['minimum']} or more"


def unusable(values: dict[str, str]) -> set[str]:
    """Return the names of the settings whose values, given as text, are invalid."""
    try:
        Settings.model_validate(values)
    except ValidationError as error:
        found: set[str] = set()
        for detail in error.errors(include_url=False, include_input=False):
            found.update(map(str, detail["loc"][:1] or detail["ctx"]["names"]))
        found = found & values.keys() or set(values)
        return found | unusable({name: value for name, value in values.items() if name not in found})
    return set()

"""Making schemas short."""

import copy
from typing import Any

import pytest

from vector_memory.server.tools.failures import admitting_failures, compact, inlined

SCHEMAS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "optional text": (
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "description": "D"},
        {"type": ["string", "null"], "description": "D"},
    ),
    "optional list": (
        {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        {"type": ["array", "null"], "items": {"type": "string"}},
    ),
    "text or number": ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": ["string", "integer"]}),
    "object that may be missing": (
        {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]},
        {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]},
    ),
    "choice that may be missing": (
        {"anyOf": [{"enum": ["a"], "type": "string"}, {"type": "null"}]},
        {"anyOf": [{"enum": ["a"], "type": "string"}, {"type": "null"}]},
    ),
    "two that say more": (
        {"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer", "minimum": 1}]},
        {"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer", "minimum": 1}]},
    ),
    "anything": ({"type": "object", "additionalProperties": True}, {"type": "object"}),
    "map": (
        {"type": "object", "additionalProperties": {"type": "integer", "default": None}},
        {"type": "object", "additionalProperties": {"type": "integer"}},
    ),
    "defaults that say something": ({"type": "integer", "default": 5}, {"type": "integer", "default": 5}),
    "a default of 0": ({"type": "integer", "default": 0}, {"type": "integer"}),
    "a default of false": ({"type": "boolean", "default": False}, {"type": "boolean", "default": False}),
    "properties named like keywords": (
        {"properties": {"default": {"default": None}, "anyOf": {"type": "string"}}, "additionalProperties": False},
        {"properties": {"default": {}, "anyOf": {"type": "string"}}},
    ),
    "inside": (
        {"$defs": {"A": {"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}},
        {"$defs": {"A": {"items": {"type": ["string", "null"]}}}},
    ),
}


@pytest.mark.parametrize(("schema", "expected"), SCHEMAS.values(), ids=SCHEMAS)
def test_compact_keeps_the_meaning(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    """A compact schema says the same in fewer words, and the one it was made of is untouched."""
    before = copy.deepcopy(schema)
    assert compact(schema) == expected
    assert schema == before
    assert compact(expected) == expected


def test_fields_of_a_success_may_be_null_in_a_failure() -> None:
    """Required fields become nullable and only `success` stays required; the schema it was made of is untouched."""
    schema = {
        "properties": {"success": {"type": "boolean", "default": True}, "id": {"type": "integer"}, "n": {"default": 0}},
        "required": ["id"],
    }
    before = copy.deepcopy(schema)
    assert admitting_failures(schema) == {
        "properties": {
            "success": {"type": "boolean", "default": True},
            "id": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "n": {"default": 0},
        },
        "required": ["success"],
    }
    assert schema == before


def test_definitions_are_inlined_and_the_referring_schema_takes_precedence() -> None:
    """Nothing refers to anything any more, however deep; the schema it was made of is untouched."""
    schema = {
        "$defs": {"A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}}, "B": {"title": "B"}},
        "properties": {
            "a": {"type": "array", "items": {"$ref": "#/$defs/A"}},
            "b": {"$ref": "#/$defs/B", "title": "C"},
        },
        "anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}],
    }
    before = copy.deepcopy(schema)
    assert inlined(schema) == {
        "properties": {
            "a": {"type": "array", "items": {"type": "object", "properties": {"b": {"title": "B"}}}},
            "b": {"title": "C"},
        },
        "anyOf": [{"title": "B"}, {"type": "null"}],
    }
    assert schema == before

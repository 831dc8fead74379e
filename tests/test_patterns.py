"""The regular expressions of the package, on every Python that it runs on."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import vector_memory

SOURCES = sorted(Path(vector_memory.__file__).parent.rglob("*.py"))
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[+*?]|\{\d*,?\d*\})\+")


def texts(source: Path) -> Iterator[str]:
    """Yield every string in a module."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python before 3.11.5 (Debian 12 has 3.11.2) does not match what it should: write `(?>(?:...)+)` instead."""
    found = [(source.name, text) for source in SOURCES for text in texts(source) if POSSESSIVE_GROUP.search(text)]
    assert not found

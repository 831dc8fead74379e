"""Benchmarks are run rarely: what they use of the package may not disappear unnoticed."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the modules of the package that a file imports from, with the names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "vector_memory":
            yield from ((str(node.module), alias.name) for alias in node.names)


@pytest.mark.parametrize("path", sorted(BENCHMARKS.rglob("*.py")), ids=lambda path: str(path.relative_to(BENCHMARKS)))
def test_a_benchmark_imports_only_what_the_package_has(path: Path) -> None:
    for module, name in imports(path):
        assert hasattr(import_module(module), name) or import_module(f"{module}.{name}")

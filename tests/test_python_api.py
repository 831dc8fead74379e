"""The package as a library: its public names, what they cost, and what they raise."""

import doctest
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vector_memory
from lattice import DIMENSIONS, LatticeEmbedder
from vector_memory import Page, Scope, SessionMemoryStore, Settings, VectorMemoryError, errors

PAGE = Path(__file__).parents[1] / "docs/python-api.md"
ERRORS = {kind.__name__ for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, Exception)}
ERRORS -= {"CancelledCallError"}  # only a server's clients cancel calls

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.just("\ud800"),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.just(object()),
)
BY_ID = (
    "get_memory_by_id",
    "reconstruct_document",
    "expand_chunk_context",
    "describe_memory",
    "get_session_stats",
    "list_sessions",
)


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    """A store that all examples of a property use, with one report."""
    chosen = Settings(embedding_model="toy", embedding_dim=DIMENSIONS)
    with SessionMemoryStore(
        tmp_path_factory.mktemp("memory") / "memory.db", chosen, embedder=LatticeEmbedder()
    ) as opened:
        opened.store_memory("report", "# Report\n\nalpha beta", session_id="s")
        yield opened


def test_examples_of_the_page_do_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example prints what the page says."""
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried > 10
    assert not failed


def test_public_names_are_sorted_and_documented() -> None:
    """`__all__` is sorted, each name can be imported, `dir` has it, and the page names all but the single errors."""
    names = vector_memory.__all__
    assert list(names) == sorted(names)
    assert all(getattr(vector_memory, name) for name in names)
    assert set(names) <= set(dir(vector_memory))
    assert set(names) >= ERRORS
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in set(names) - ERRORS if f"`{name}`" not in text] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    """`hasattr` and a mistyped import behave as with any module."""
    assert not hasattr(vector_memory, "SessionMemoryStor")


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    """A program that only imports the package does not wait for numpy, pydantic or SQLite."""
    code = "import sys, vector_memory; print(*sys.modules, sep='\\n')"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in modules if name.startswith("vector_memory.")] == []
    assert not {"numpy", "pydantic", "apsw", "onnxruntime", "fastmcp"} & {*modules}


@pytest.mark.parametrize("name", ["search_chunks", "search_sections", "search_documents", "search_memories"])
@given(data=st.data())
def test_bad_arguments_of_a_search_raise_only_package_errors(
    name: str, shared_store: SessionMemoryStore, data: st.DataObject
) -> None:
    """Whatever is given as query, scope, page or mode, a caller has to catch one kind of error."""
    query, scope, page, mode = (data.draw(part) for part in (JUNK, JUNK | st.just(Scope("report")), JUNK, JUNK))
    require_our_errors(lambda: getattr(shared_store, name)(query, scope, page, mode=mode))


@given(name=st.sampled_from(BY_ID), value=JUNK)
def test_bad_ids_raise_only_package_errors(shared_store: SessionMemoryStore, name: str, value: object) -> None:
    """The same applies to look-ups by an id or a name."""
    require_our_errors(lambda: getattr(shared_store, name)(value))


@given(
    kind=JUNK,
    content=JUNK,
    fields=st.dictionaries(st.sampled_from(["agent_id", "session_id", "tags", "metadata"]), JUNK),
)
def test_bad_fields_of_a_memory_raise_only_package_errors(
    shared_store: SessionMemoryStore, kind: object, content: object, fields: dict[str, Any]
) -> None:
    """The same applies to storing."""
    require_our_errors(lambda: shared_store.store_memory(kind, content, **fields))  # type: ignore[arg-type]
    require_our_errors(lambda: shared_store.store_memory("report", content, **fields))  # type: ignore[arg-type]


@given(values=st.lists(JUNK, min_size=3, max_size=3))
def test_bad_values_raise_only_package_errors(values: list[Any]) -> None:
    """The same applies to scopes and pages."""
    kind, name, number = values
    require_our_errors(lambda: Scope(kind, session_id=name, session_iter=number, tags=name))
    require_our_errors(lambda: Page(limit=number, offset=name, max_tokens=kind))


def require_our_errors(call: Callable[[], object]) -> None:
    """Let a call do its work or raise an error of this package; any other error fails the test."""
    with suppress(VectorMemoryError):
        call()

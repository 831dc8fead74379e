"""The page as a file: its contents, and that hostile texts can do nothing."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import execute
from inside import storage_of
from report_page import HOSTILE, WORD
from vector_memory.errors import NotFoundError, ValidationError
from vector_memory.maintenance.report import SessionReports
from vector_memory.maintenance.report import session_report as reporting
from vector_memory.maintenance.report.session_report import SCRIPTS, script_data, source
from vector_memory.store import SessionMemoryStore


class Reader(HTMLParser):
    """Notes the elements as a browser finds them, and what the scripts and styles hold."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.held: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag in {"script", "style"}:
            self.held.append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:
            self.held[-1] += data


def data_of(page: Path) -> dict[str, object]:
    (data,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL
    )
    return json.loads(data)


def test_the_page_has_one_style_and_two_scripts_whatever_the_texts_say(page: Path) -> None:
    read = Reader(page.read_text(encoding="utf-8"))
    assert read.tags.count("style") == 1
    assert read.tags.count("script") == 2
    assert not {"img", "iframe", "object", "embed", "base"} & set(read.tags)
    assert not [name for name, _ in read.attributes if name.startswith("on") or name == "src"]


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(page: Path) -> None:
    read = Reader(page.read_text(encoding="utf-8"))
    style, _, script = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in read.held)
    policies = [value for name, value in read.attributes if name == "content" and value and "default-src" in value]
    sources = f"style-src 'sha256-{style}'; script-src 'sha256-{script}'; img-src data:"
    assert policies == [f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"]


@given(st.text())
def test_data_in_a_script_element_reads_back_and_cannot_end_it(text: str) -> None:
    written = script_data({"text": text})
    assert not set(written) & set("<>&\u2028\u2029")
    assert json.loads(written) == {"text": text}


def test_the_parts_of_the_script_cannot_end_it_either() -> None:
    assert not any("</script" in source(name) or "<!--" in source(name) for name in SCRIPTS)


def test_texts_are_in_the_page_exactly_as_stored(page: Path) -> None:
    memories = data_of(page)["memories"]
    assert isinstance(memories, list)
    assert [memory["text"] for memory in memories][-1] == HOSTILE + WORD
    assert [memory["kind"] for memory in memories] == [
        "report",
        "report_observation",
        "working_memory",
        "input_prompt",
        "report",
    ]


def test_each_memory_has_a_point_on_the_map_and_neighbours(page: Path) -> None:
    memories = data_of(page)["memories"]
    assert isinstance(memories, list)
    assert all(len(memory["point"]) == 2 and len(memory["near"]) == 3 for memory in memories)


def test_a_session_without_memories_has_no_page(session: SessionMemoryStore) -> None:
    reports = SessionReports(storage_of(session))
    with pytest.raises(NotFoundError, match="vector-memory sessions"):
        reports.page("nobody")
    with pytest.raises(ValidationError):
        reports.page("")


def test_memories_that_make_a_page_too_large_are_left_out_and_counted(
    session: SessionMemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = SessionReports(storage_of(session))
    monkeypatch.setattr(reporting, "MAX_MEMORIES", 4)
    monkeypatch.setattr(reporting, "MAX_TEXT", len((HOSTILE + WORD).encode()) + 25)
    made = reports.page("s")
    assert (made.memories, made.shown, made.texts) == (5, 4, 2)
    file = tmp_path / "page.html"
    file.write_text(made.html, encoding="utf-8")
    memories = data_of(file)["memories"]
    assert isinstance(memories, list)
    assert [memory["text"] is None for memory in memories] == [True, True, False, False]
    assert memories[0]["size"] == len("It waits a second.")


def test_memories_without_vectors_are_shown_without_a_point(session: SessionMemoryStore) -> None:
    execute(session, "delete from memory_passages")
    made = SessionReports(storage_of(session)).page("s")
    assert made.html.count('"point":null') == made.shown == 5

"""The command report and its page: its contents, its map, and that hostile texts can do nothing."""

import base64
import hashlib
import json
import re
import stat
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from engines import execute, place_of
from forked import finished
from inside import storage_of
from report_page import HOSTILE, WORD
from vector_memory.errors import NotFoundError, ValidationError
from vector_memory.extras.window import session_report as reporting
from vector_memory.extras.window.commands import file_name
from vector_memory.extras.window.page import SCRIPTS, page_html, render, script_data, source
from vector_memory.extras.window.session_report import nearest_neighbours, project, session_data
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


def memories_in(page: Path) -> list[dict[str, Any]]:
    data = page.read_text(encoding="utf-8").partition('id="data">')[2].partition("</script>")[0]
    return list(json.loads(data)["memories"])


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
    own = f"style-src 'sha256-{style}'; img-src data:; base-uri 'none'; script-src 'sha256-{script}'"
    assert policies == [f"default-src 'none'; {own}; form-action 'none'"]


@given(st.text())
def test_data_in_a_script_element_reads_back_and_cannot_end_it(text: str) -> None:
    written = script_data({"text": text})
    assert not set(written) & set("<>&\u2028\u2029")
    assert json.loads(written) == {"text": text}


def test_the_parts_of_the_script_cannot_end_it_either() -> None:
    assert not any("</script" in source(name) or "<!--" in source(name) for name in SCRIPTS)


def test_texts_are_in_the_page_exactly_as_stored(page: Path) -> None:
    memories = memories_in(page)
    assert [memory["content"] for memory in memories][-1] == HOSTILE + WORD
    kinds = ["report", "report_observation", "working_memory", "input_prompt", "report"]
    assert [memory["memory_type"] for memory in memories] == kinds


def test_each_memory_has_a_point_on_the_map_and_neighbours(page: Path) -> None:
    memories = memories_in(page)
    assert all(len(memory["point"]) == 2 and len(memory["near"]) == 3 for memory in memories)


def test_a_session_without_memories_has_no_page(session: SessionMemoryStore) -> None:
    storage = storage_of(session)
    with pytest.raises(NotFoundError, match="vector-memory sessions"):
        session_data(storage, "nobody")
    with pytest.raises(ValidationError):
        session_data(storage, "")


def test_memories_that_make_a_page_too_large_are_left_out_and_counted(
    session: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "MAX_MEMORIES", 4)
    monkeypatch.setattr(reporting, "MAX_TEXT", len((HOSTILE + WORD).encode()) + 25)
    made = session_data(storage_of(session), "s")
    memories = made["memories"]
    assert (made["total"], len(memories), made["texts"]) == (5, 4, 2)
    assert [memory["content"] is None and memory["html"] is None for memory in memories] == [True, True, False, False]
    assert memories[0]["content_length"] == len("It waits a second.")


def test_memories_without_vectors_are_shown_without_a_point(session: SessionMemoryStore) -> None:
    execute(session, "delete from memory_passages")
    made = page_html(session_data(storage_of(session), "s"))
    assert made.count('"point":null') == 5


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return finished("report", *words)


@pytest.mark.usefixtures("session")
def test_the_page_is_for_its_owner_only_and_replaced_only_on_request(tmp_path: Path) -> None:
    file, place = tmp_path / "session.html", place_of(tmp_path / "memory.db")
    made = finished("report", "s", "-o", file, "--json", *place, umask=0)
    assert (made.returncode, made.stderr) == (0, "")
    said = json.loads(made.stdout)
    facts = {"success": True, "memories": 5, "shown": 5, "texts": 5, "file": str(file), "bytes": file.stat().st_size}
    assert said.items() >= facts.items()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("mine", encoding="utf-8")
    refused = run("s", "-o", file, *place)
    assert (refused.returncode, refused.stdout, file.read_text(encoding="utf-8")) == (1, "", "mine")
    assert "--overwrite" in refused.stderr
    assert run("s", "-o", file, "--overwrite", *place).stdout.startswith("Wrote 5 memories (0.")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.usefixtures("session")
def test_an_unknown_session_creates_no_file(tmp_path: Path) -> None:
    ended = run("nobody", "-o", tmp_path / "n.html", *place_of(tmp_path / "memory.db"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith('vector-memory: There is no session "nobody": ')
    assert not list(tmp_path.glob("*.html*"))


@pytest.mark.usefixtures("session")
def test_without_a_file_the_page_is_named_like_the_session(tmp_path: Path) -> None:
    """With --all each session has a page of its own, in the folder that is given."""
    place = place_of(tmp_path / "memory.db")
    said = json.loads(run("--all", "-o", tmp_path / "pages", "--json", *place).stdout)
    assert sorted(page["file"] for page in said["pages"]) == [
        str(tmp_path / "pages" / f"{name}.html") for name in ("other", "s")
    ]
    assert finished("report", "s", *place, cwd=tmp_path).returncode == 0
    assert (tmp_path / "s.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_no_two_sessions_have_pages_of_the_same_name() -> None:
    """Signs that no file name may have are left out, and a name that lost some gets a suffix."""
    names = ["s", "a/b", "a-b", "a b", "../../etc/passwd", "", "x" * 200, "x" * 201]
    pages = [file_name(name) for name in names]
    assert len(set(pages)) == len(names)
    assert pages[:3:2] == ["s.html", "a-b.html"]
    assert all(Path(page).name == page and len(page) < 120 for page in pages)


@pytest.mark.parametrize("words", [(), ("s", "--all")])
def test_a_page_needs_a_session_or_all(words: tuple[str, ...], tmp_path: Path) -> None:
    ended = run(*words, *place_of(tmp_path / "memory.db"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Name a session, or use --all" in ended.stderr


VECTORS = st.integers(0, 12).flatmap(
    lambda rows: arrays(np.float32, (rows, 6), elements=st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]))
)


@given(VECTORS)
def test_every_memory_has_a_point_in_the_square(vectors: NDArray[np.float32]) -> None:
    points, share = project(vectors)
    assert points.shape == (len(vectors), 2)
    assert np.abs(points).max(initial=0) <= 1 + 1e-9
    assert 0 <= share <= 1 + 1e-9


@given(VECTORS)
def test_equal_vectors_give_equal_maps(vectors: NDArray[np.float32]) -> None:
    np.testing.assert_array_equal(project(vectors)[0], project(vectors.copy())[0])


def test_what_lies_in_a_plane_keeps_its_distances() -> None:
    angles = np.array([0.0, 0.4, 1.9, 3.3, 5.0])
    flat = np.stack([np.cos(angles), np.sin(angles), np.zeros(5), np.zeros(5)], axis=1).astype(np.float32)
    turned, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))
    points, share = project((flat @ turned).astype(np.float32))
    apart = np.linalg.norm(flat[:, None] - flat[None], axis=2)
    shown = np.linalg.norm(points[:, None] - points[None], axis=2)
    off = ~np.eye(5, dtype=bool)
    ratios = shown[off] / apart[off]
    assert ratios.std() / ratios.mean() < 1e-5
    assert share == pytest.approx(1)


def test_the_length_of_a_vector_does_not_move_its_point() -> None:
    vectors = np.random.default_rng(2).normal(size=(7, 5)).astype(np.float32)
    longer = vectors * np.arange(1, 8, dtype=np.float32)[:, None]
    np.testing.assert_allclose(project(vectors)[0], project(longer)[0], atol=1e-5)


def test_memories_with_equal_vectors_are_one_point() -> None:
    points, share = project(np.tile(np.float32([0.1, 0.7, 0.2]), (4, 1)))
    assert not points.any()
    assert share == 1


@given(VECTORS)
def test_neighbours_equal_a_sort_by_all_cosines(vectors: NDArray[np.float32]) -> None:
    lengths = np.linalg.norm(vectors.astype(float), axis=1, keepdims=True)
    units = vectors / np.where(lengths > 0, lengths, 1)
    for row, found in enumerate(nearest_neighbours(vectors, 3)):
        others = sorted((float(units[row] @ unit) for at, unit in enumerate(units) if at != row), reverse=True)
        assert [cosine for _, cosine in found] == pytest.approx(others[:3])
        assert row not in {at for at, _ in found}


TAGS = set(re.findall(r"\w+", "p h2 h3 h4 h5 h6 a span em strong s code pre blockquote hr br ul ol li"))
TAGS |= {"table", "thead", "tbody", "tr", "th", "td"}


def assert_harmless(text: str) -> None:
    read = Reader(render(text))
    assert set(read.tags) <= TAGS
    assert {name for name, _ in read.attributes} <= {"href", "target", "rel", "class", "title", "start"}
    targets = [value or "" for name, value in read.attributes if name == "href"]
    assert all(target.lower().startswith(("http://", "https://", "mailto:")) for target in targets)


PIECES = st.sampled_from(
    [
        *(
            "<script>",
            "</script>",
            "[a](",
            "javascript:x",
            "![",
            "](",
            ")",
            "\n\n",
            "|",
            "\n|-|\n",
            "`",
            "```",
            "# ",
            "- ",
        ),
        *(">", "<img onerror=x>", '"', "'", "&", "\u2028", "**", "https://a.b", "data:x", "<", "x", " ", "\t", "\\"),
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_no_text_becomes_a_tag_an_attribute_or_a_link_that_could_do_something(text: str) -> None:
    assert_harmless(text)


def test_the_hostile_document_is_harmless() -> None:
    assert_harmless(HOSTILE)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("[x](https://a.b)", '<p><a href="https://a.b" target="_blank" rel="noreferrer noopener">x</a></p>\n'),
        ("[x](ch02.md)", '<p><span class="link" title="ch02.md">x</span></p>\n'),
        ("![x *y*](p.png)", '<p><span class="picture" title="p.png">[image: x y]</span></p>\n'),
        ("# A\n\n#### B", '<h2 class="h1">A</h2>\n<h5 class="h4">B</h5>\n'),
        ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>\n"),
    ],
)
def test_disallowed_markup_is_shown_as_text(text: str, html: str) -> None:
    assert render(text) == html


def test_a_column_is_aligned_by_a_class_because_styles_are_forbidden() -> None:
    assert '<td class="right">1</td>' in render("|a|\n|-:|\n|1|")


def test_front_matter_is_shown_as_it_is_written_and_attributes_of_headings_are_not() -> None:
    assert render("---\ntitle: <b>x</b>\n---\n# Cloud *9* { #cloud }\n\ntext {#a}") == (
        "<pre><code>---\ntitle: &lt;b&gt;x&lt;/b&gt;\n---\n</code></pre>\n"
        '<h2 class="h1">Cloud <em>9</em></h2>\n<p>text {#a}</p>\n'
    )


@pytest.mark.parametrize("depth", [30, 1_000])
@pytest.mark.parametrize("mark", ["- ", "> ", "1. > "])
def test_what_follows_a_deep_list_or_quote_is_shown(mark: str, depth: int) -> None:
    html = render(f"{mark * depth}inner\n\n# Later\n")
    assert "inner" in html
    assert '<h2 class="h1">Later</h2>' in html

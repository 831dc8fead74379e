"""What a document says of itself: its front matter, its title and its headings, as one reader reads them."""

import pytest

from vector_memory.texts.chunks import chunk_document
from vector_memory.texts.structure import headings, read_front_matter, title_of

FRONT_MATTER = {
    "yaml": "---\n# comment\ntitle: The manual\ntags: [setup, '#linux']\ndate: 2024-03-05 10:00:00 +0200\n---\n",
    "toml": "+++\n# comment\ntitle = 'The manual'\ntags = ['setup', 'linux']\ndate = 2024-03-05T10:00:00+02:00\n+++\n",
    "named yaml": "---yaml\n$schema: x\ntitle: The manual\ntags: '#setup #linux'\ndate: 2024-03-05T10:00+02:00\n---\n",
    "broken yaml": "---\nby: @me\ntitle: The manual\ntags:\n\t- setup\n\t- linux\ndate: 2024-03-05T10:00+02:00\n...\n",
    "yaml of one line": "---\n{title: The manual, tags: [setup, linux], date: '2024-03-05T10:00+02:00'}\n---\n",
    "docusaurus": "---\ntitle: The manual\ntags:\n- label: setup\n- linux\ndate: 2024-03-05T10:00+02:00\n---\n",
    "zola": "+++\ntitle='The manual'\ndate = 2024-03-05 10:00:00+02:00\n[taxonomies]\ntags = ['setup','linux']\n+++\n",
}


def paths(text: str) -> list[tuple[str, ...]]:
    """Return the heading path of each chunk; of one word each, so that every section is one."""
    return [chunk.headings for chunk in chunk_document(text, lambda part: len(part.split()), 4, 0)]


@pytest.mark.parametrize("above", FRONT_MATTER.values(), ids=FRONT_MATTER)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_front_matter_names_the_document_and_has_no_headings(above: str, end: str, mark: str) -> None:
    text = mark + f"{above}\n## Install\n\nwords\n\n## Use\n\nof it and more".replace("\n", end)
    front = read_front_matter(text)
    assert text[front.end :].strip().startswith("## Install")
    assert front[1:] == ("The manual", ("setup", "linux"), "2024-03-05T10:00:00+02:00")
    assert title_of(text) == "The manual"
    assert list(headings(text)) == ["Install", "Use"]
    assert {*paths(text)} == {("## Install",), ("## Use",)}


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("title: One: two", "One: two"),  # no YAML, and still what its author means
        ("title: 'It''s'", "It's"),
        ("Title: >-\n  On two\n  lines", "On two lines"),
        ("title: 1.10", "1.10"),
        ("title: null", "Heading"),
        ("title: [a, b]", "Heading"),
        ("title:", "Heading"),
        ("draft: true", "Heading"),
        ("# Do not remove front matter.\n# Really.", "Heading"),
        ("a: &a [x]\ntitle: *missing", "*missing"),
        ("a: " + "[" * 5_000 + "\ntitle: deep", "deep"),
    ],
)
def test_a_title_is_the_one_of_the_front_matter_if_that_has_one(line: str, title: str) -> None:
    assert title_of(f"---\n{line}\n---\n# Heading\n") == title


@pytest.mark.parametrize(
    ("value", "tags"),
    [("one, two", ("one", "two")), ("machine learning", ("machine learning",)), ("\n- a\n- a\n- {b: c}\n- ", ("a",))],
)
def test_tags_are_a_list_or_a_line_with_commas(value: str, tags: tuple[str, ...]) -> None:
    assert read_front_matter(f"---\ntags: {value}\n---\n").tags == tags


@pytest.mark.parametrize("date", ["yesterday", "2024-13-45", "[2024]", "{{ now }}"])
def test_a_date_that_is_none_is_left_out(date: str) -> None:
    assert read_front_matter(f"---\ntitle: x\ndate: {date}\n---\n").date is None


@pytest.mark.parametrize(
    "text",
    [
        "---\n\n# Title\n\n---\n",
        "---\n# Title\n\nwords\n---\n",
        "---\ntitle: open\n# Title\n",
        "\n---\na: b\n---\n# Title\n",
        '{"title": "x"}\n# Title\n',
    ],
)
def test_text_between_rules_is_no_front_matter(text: str) -> None:
    assert read_front_matter(text).end == 0
    assert title_of(text) == "Title"


def test_front_matter_longer_than_anybody_writes_is_not_read_but_left_out_all_the_same() -> None:
    text = "---\ntitle: x\n" + "# comment\n" * 5_000 + "---\n# Heading\n"
    assert title_of(text) == "Heading"
    assert paths(text)[-1] == ("# Heading",)


def test_a_byte_order_mark_hides_no_heading() -> None:
    assert title_of("\ufeff# Title\n\nwords") == "Title"
    assert paths("\ufeff# Title\n\nwords") == [("# Title",)]


@pytest.mark.parametrize(
    ("heading", "shown"),
    [
        ("FastAPI Cloud { #fastapi-cloud }", "FastAPI Cloud"),
        ('Closed {#id .class key="a value"} ##', "Closed"),
        ("kramdown {: #id}", "kramdown"),
        ("Preface {-}", "Preface"),
        ("Quoted {#id key='a value'}", "Quoted"),
        ("React {/*react*/}", "React"),
        ("Contents <!-- omit in toc -->", "Contents"),
        ("Both {#id} <!-- omit in toc -->", "Both"),
        ("{#each ...}", "{#each ...}"),
        ("Loops: {#each a as b}", "Loops: {#each a as b}"),
        ("A set {a, b}", "A set {a, b}"),
    ],
)
def test_what_stands_behind_a_heading_for_tools_is_not_part_of_it(heading: str, shown: str) -> None:
    assert {*paths(f"# {heading}\n\nwords")} == {(f"# {shown}",)}
    assert list(headings(f"# {heading}\n")) == [shown]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("```one line```\n\n# Title", "Title"),
        ("<!--\n# Hidden\n-->\n# Title", "Title"),
        ("````\n```\n# comment\n```\n````\n# Title", "Title"),
        ("~~~\n# comment\n```\n# comment\n~~~\n# Title", "Title"),
        ("- # listed\n\n# Title", "Title"),
        ("#\n# The `store` and [its *file*](x.md) <a name='b'></a>", "The store and its file"),
        ("# C\\* & 2*3 &amp; snake_case", "C* & 2*3 & snake_case"),
        ("words", ""),
    ],
)
def test_a_title_is_the_first_heading_of_the_parser_as_it_is_read(text: str, title: str) -> None:
    assert title_of(text) == title

"""Markdown as inert HTML."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report_page import HOSTILE
from vector_memory.maintenance.report.rendering import render

TAGS = {"p", "h4", "h5", "h6", "a", "span", "em", "strong", "s", "code", "pre", "blockquote", "hr", "br"} | {
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td")
}


class Reader(HTMLParser):
    """Notes every tag and attribute."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs


def assert_harmless(text: str) -> None:
    read = Reader(render(text))
    assert read.tags <= TAGS
    assert {name for name, _ in read.attributes} <= {"href", "target", "rel", "class", "title", "start"}
    targets = [value or "" for name, value in read.attributes if name == "href"]
    assert all(target.lower().startswith(("http://", "https://", "mailto:")) for target in targets)


PIECES = st.sampled_from(
    [
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
        ">",
        "<img onerror=x>",
        '"',
        "'",
        "&",
        "\u2028",
        "**",
        "https://a.b",
        "data:x",
        "<",
        "x",
        " ",
        "\t",
        "\\",
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
        ("# A\n\n#### B", '<h4 class="h1">A</h4>\n<h6 class="h4">B</h6>\n'),
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
        '<h4 class="h1">Cloud <em>9</em></h4>\n<p>text {#a}</p>\n'
    )


@pytest.mark.parametrize("depth", [30, 1_000])
@pytest.mark.parametrize("mark", ["- ", "> ", "1. > "])
def test_what_follows_a_deep_list_or_quote_is_shown(mark: str, depth: int) -> None:
    html = render(f"{mark * depth}inner\n\n# Later\n")
    assert "inner" in html
    assert '<h4 class="h1">Later</h4>' in html

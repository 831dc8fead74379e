"""Markdown as HTML that can do nothing but be read: no scripts, no styles, no pictures, no links but to the web.

Tags in the Markdown are shown as text. What a link may lead to is decided here and not left to the parser.
"""

import re
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

WEB = re.compile(r"(https?://|mailto:)", re.IGNORECASE)
OUTER_HEADINGS = 3
"""The page's own headings above those of a document."""
DEEPEST_HEADING = 6

parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
renderer = RendererHTML(parser)


def render(text: str) -> str:
    """Return a Markdown text as HTML. Everything that it could load, run or disguise is text."""
    tokens = parser.parse(text)
    return renderer.render(list(_harmless(tokens)), parser.options, {})


def _harmless(tokens: Iterable[Token]) -> Iterator[Token]:
    links: list[str] = []
    for token in tokens:
        match token.type:
            case "inline":
                token.children = list(_harmless(token.children or []))
            case "link_open":
                _open_link(token)
                links.append(token.tag)
            case "link_close":
                token.tag = links.pop()
            case "heading_open" | "heading_close":
                _lower(token)
            case "th_open" | "td_open":
                _align(token)
            case "fence":
                token.info = ""  # the language is of no use without colours
        yield from _words_for(token) if token.type == "image" else [token]


def _open_link(token: Token) -> None:
    """Let a link lead to the web without telling from where, or make it a text that says where it would lead."""
    target = str(token.attrs["href"])
    if WEB.match(target):
        token.attrs = {"href": target, "target": "_blank", "rel": "noreferrer noopener"}
    else:
        token.tag = "span"
        token.attrs = {"class": "link", "title": target}


def _words_for(picture: Token) -> Iterator[Token]:
    """Yield what stands for a picture: it is never loaded."""
    words = renderer.renderInlineAsText(picture.children or [], parser.options, {}) or "without a description"
    yield Token("picture_open", "span", 1, attrs={"class": "picture", "title": str(picture.attrs["src"])})
    yield Token("text", "", 0, content=f"[picture: {words}]")
    yield Token("picture_close", "span", -1)


def _lower(heading: Token) -> None:
    """Put a heading below those of the page; its class says how deep it is in the document."""
    level = int(heading.tag[1])
    heading.tag = f"h{min(DEEPEST_HEADING, level + OUTER_HEADINGS)}"
    if heading.nesting == 1:
        heading.attrs = {"class": f"h{level}"}


def _align(cell: Token) -> None:
    """Say by a class what the parser says by a style, which the page's policy forbids."""
    style = str(cell.attrs.pop("style", ""))
    if style:
        cell.attrs["class"] = style.removeprefix("text-align:")

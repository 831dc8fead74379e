"""Renders Markdown as inert HTML: no scripts, no styles, no images, links to the web only.

HTML tags in the Markdown are shown as text. The targets of links are checked here, not by the parser.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from vector_memory.texts.structure import nesting_deeply, read_front_matter, without_attributes

WEB = re.compile(r"(https?://|mailto:)", re.IGNORECASE)
OUTER_HEADINGS = 1
"""Levels of the page's own headings above those of a document."""
DEEPEST_HEADING = 6

parser = nesting_deeply(MarkdownIt("commonmark", {"html": False})).enable(["table", "strikethrough"])
renderer = RendererHTML(parser)


def _without_attributes(state: StateCore) -> None:
    """Leave out what only tools read behind headings, before the inline text is parsed."""
    for heading, inline in pairwise(state.tokens):
        if heading.type == "heading_open":
            inline.content = without_attributes(inline.content)


parser.core.ruler.after("block", "attributes", _without_attributes)


def render(text: str) -> str:
    """Return a Markdown text as HTML. Anything that could load, run or disguise something is rendered as text.

    Front matter is shown as it is written, and attributes behind headings are not.
    """
    end = read_front_matter(text).end
    front = [Token("fence", "code", 0, content=text[:end])] if end else []
    tokens = [*front, *parser.parse(text[end:])]
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
                token.info = ""  # the language is only needed for highlighting
        yield from _words_for(token) if token.type == "image" else [token]


def _open_link(token: Token) -> None:
    """Make a link to the web without a referrer; turn any other link into text with its target."""
    target = str(token.attrs["href"])
    if WEB.match(target):
        token.attrs = {"href": target, "target": "_blank", "rel": "noreferrer noopener"}
    else:
        token.tag = "span"
        token.attrs = {"class": "link", "title": target}


def _words_for(picture: Token) -> Iterator[Token]:
    """Yield the text that replaces an image, which is never loaded."""
    words = renderer.renderInlineAsText(picture.children or [], parser.options, {}) or "without a description"
    yield Token("picture_open", "span", 1, attrs={"class": "picture", "title": str(picture.attrs["src"])})
    yield Token("text", "", 0, content=f"[image: {words}]")
    yield Token("picture_close", "span", -1)


def _lower(heading: Token) -> None:
    """Move a heading below those of the page; its class keeps its level in the document."""
    level = int(heading.tag[1])
    heading.tag = f"h{min(DEEPEST_HEADING, level + OUTER_HEADINGS)}"
    if heading.nesting == 1:
        heading.attrs = {"class": f"h{level}"}


def _align(cell: Token) -> None:
    """Replace the parser's inline style, which the page's policy forbids, with a class."""
    style = str(cell.attrs.pop("style", ""))
    if style:
        cell.attrs["class"] = style.removeprefix("text-align:")

"""The page as one file of HTML: of a live memory, or with a session in it; and Markdown as inert HTML.

The page loads nothing but the answers of a live memory; a session's page opens without a server and a network.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from importlib.resources import files
from itertools import pairwise
from string import Template
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from vector_memory.texts.structure import nesting_deeply, read_front_matter, without_attributes

SCRIPTS = (
    *("vendor/preact-htm.js", "parts.js", "live.js", "charts.js", "memories.js", "memory.js"),
    *("home.js", "search.js", "review.js", "app.js"),
)
"""The parts of the page's script, in order."""

IN_SCRIPT = "<>&\u2028\u2029"
"""Characters that could end a script element, or a line of it in older browsers."""

EXPORTS = re.compile(r"export\{(.+)\};\s*")


def source(name: str) -> str:
    """Return one of the page's source files. What a library exports becomes the names of the one script."""
    text = files(__package__).joinpath("web", name).read_text(encoding="utf-8")
    return EXPORTS.sub(lambda found: f"const {','.join(names_in(found[1]))};", text)


def names_in(exported: str) -> list[str]:
    """Return the definitions of what is exported under a name of its own."""
    pairs = (pair.partition(" as ") for pair in exported.split(","))
    return [f"{name}={inner}" for inner, _, name in pairs if len(name) > 1]


def digest(text: str) -> str:
    """Return the hash by which a policy allows an inline element: the SHA-256 of its content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def script_data(data: Mapping[str, Any] | None) -> str:
    """Return data as JSON that cannot end the script element around it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for sign in IN_SCRIPT:
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


STYLE = source("style.css")
SCRIPT = "\n".join(map(source, SCRIPTS))
SIGN_IN = Template(source("sign_in.html"))

STYLED = f"default-src 'none'; style-src {digest(STYLE)}; img-src data:; base-uri 'none'"
OFFLINE_POLICY = f"{STYLED}; script-src {digest(SCRIPT)}; form-action 'none'"
"""The Content-Security-Policy of a session's page: this style and this script, and nothing else."""

LIVE_POLICY = f"{OFFLINE_POLICY}; connect-src 'self'"
SIGN_IN_POLICY = f"{STYLED}; form-action 'self'; frame-ancestors 'none'"


def page_html(session: Mapping[str, Any] | None = None) -> str:
    """Return the page. `session`: the data of the one that it shows; None: it shows a live memory."""
    return Template(source("index.html")).substitute(
        policy=OFFLINE_POLICY if session else LIVE_POLICY,
        title=escape(f"{session['session']} - Session report") if session else "Memory",
        style=STYLE,
        data=script_data(session),
        script=SCRIPT,
    )


def sign_in_html(said: str) -> str:
    """Return the form in which somebody enters a token."""
    return SIGN_IN.substitute(said=escape(said), style=STYLE)


# Markdown as inert HTML: no scripts, no styles, no images, links to the web only. HTML tags in the Markdown are shown
# as text. The targets of links are checked here, not by the parser.

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

"""Finds the headings, code fences and tables of a Markdown document, as offsets into the document.

markdown-it-py parses the blocks (CommonMark plus tables). langchain's ExperimentalMarkdownSyntaxTextSplitter, which the
specification names for this, returns strings that do not add up to the document: it drops `---` and `***` lines, drops
everything after an unclosed fence, closes a `~~~` fence at a backtick fence, and misses indented fences.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise, takewhile, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from vector_memory.domain import Span
from vector_memory.texts.front_matter import front_matter_end, read_front_matter

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

_start = attrgetter("start")

# Every chunk repeats its heading path; a heading of 500,000 characters must not be repeated a thousand times.
MAX_HEADING = 200

DEEPEST_LIST, DEEPEST_QUOTE = 100, 20
"""Levels: a list in a list is two levels deeper, a quote in a quote one. Each quote reads its lines again."""

BOM = "\ufeff"

LINE_END = re.compile(r"\r\n?|\n")

INVISIBLE = re.compile(
    r"(?>(?:\s++|<!--(?>(?:[^-]++|-(?!->))*)-->|<a\b[^<>]*+>\s*+</a\s*+>|<a\b[^<>]*+(?<=/)>)+)", re.IGNORECASE
)
"""Only HTML comments and anchors, which are invisible in the rendered document."""


ATTRIBUTE = r"(?:-|[#.][^\s{}]+|[\w-]+=(?:\"[^\"{}]*\"|'[^'{}]*'|[^\s\"'{}]+))"
ATTRIBUTES = re.compile(
    rf"(?<=[^\s\\])(?:\s*\{{:?\s*{ATTRIBUTE}(?:\s+{ATTRIBUTE})*\s*\}}|\s*\{{/\*[^{{}}]*\*/\}}|\s*<!--(?:(?!-->).)*-->)+\s*\Z"
)
"""What documentation tools read behind headings, and do not show: `{#id .class}`, `{: #id}`, `{-}`, `{/* id */}`.

Comments are left out as well."""


class Section(NamedTuple):
    """A heading and the text up to the next heading of any level; level 0 is the text before the first heading.

    Comments and anchors directly above a heading belong to it: alone they would be a meaningless chunk.

    `path`: the enclosing headings with their marks, ending with its own. `bare`: no text follows the heading.
    """

    start: int
    end: int
    level: int
    path: tuple[str, ...]
    bare: bool

    def introduces(self, following: "Section | None") -> bool:
        """Whether this is a bare heading followed by its first subheading: `# Title`, then `## Part`."""
        return self.bare and following is not None and following.level > self.level


class Heading(NamedTuple):
    """The lines of a heading and of the comments directly above it, its depth 1-6, and its text with its marks."""

    start: int
    end: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Structure:
    """The blocks of a document, each list in order and without overlaps.

    `fences` are closed code fences including both marks; `open_fences` run to the end of the enclosing block.
    """

    sections: list[Section]
    fences: list[Span]
    open_fences: list[Span]
    tables: list[Span]

    @classmethod
    def of_paragraphs(cls, text: str) -> "Structure":
        """Return the structure of a text in which only paragraphs count."""
        return cls([Section(0, len(text), 0, (), bare=False)], [], [], [])

    def section_at(self, offset: int) -> int:
        """Return the index of the section that contains the character at `offset`."""
        return max(0, bisect_right(self.sections, offset, key=_start) - 1)

    def fences_in(self, start: int, end: int) -> list[Span]:
        """Return the closed fences that start in a range."""
        return self.fences[bisect_left(self.fences, start, key=_start) : bisect_left(self.fences, end, key=_start)]

    def is_fence(self, start: int, end: int) -> bool:
        """Whether a range, which neither starts nor ends with white space, is exactly one closed fence."""
        at = bisect_right(self.fences, start, key=_start) - 1
        return at >= 0 and end <= self.fences[at].end

    def has_code(self, start: int, end: int) -> bool:
        """Whether a range touches a code fence."""
        return _touches(self.fences, start, end) or _touches(self.open_fences, start, end)

    def has_table(self, start: int, end: int) -> bool:
        """Whether a range touches a table."""
        return _touches(self.tables, start, end)

    def path(self, start: int, end: int) -> tuple[str, ...]:
        """Return the headings that enclose the whole range.

        A bare heading that only introduces the next one is part of that one's path, so it does not shorten the result.
        """
        touched = self.sections[self.section_at(start) : bisect_left(self.sections, end, key=_start)]
        following = zip_longest(touched, touched[1:])
        paths = [section.path for section, after in following if section and not section.introduces(after)]
        common = takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))
        return tuple(level[0] for level in common)


@dataclass(slots=True)
class _Blocks:
    """The blocks found so far, by kind. `invisible_from`: the start of the comments and anchors that came last."""

    headings: list[Heading] = field(default_factory=list)
    fences: list[Span] = field(default_factory=list)
    open_fences: list[Span] = field(default_factory=list)
    tables: list[Span] = field(default_factory=list)
    invisible_from: int | None = None


@lru_cache(maxsize=1)  # a document's title and its chunks are read from it
def read_structure(text: str) -> Structure:
    """Parse the blocks of a Markdown document, in time linear in its length.

    Headings are `#` to `######` outside lists and quotes. Underlined headings (`Title` above `---`) do not count: text
    above a rule looks the same and would end up in heading paths. Front matter is no text, and belongs to a heading
    that follows it.
    """
    lines = _line_starts(text)
    above = front_matter_end(text)
    blocks = _Blocks(invisible_from=0 if above or text.startswith(BOM) else None)
    visible = "\n" * (bisect_left(lines, above) if above else 0) + text[above:].removeprefix(BOM)
    for token, inline in pairwise([*_parsed(block_parser(), visible), None]):
        if token is not None and token.map is not None:
            _collect(blocks, token, inline, lines)
    return Structure(_sections(text, blocks.headings), blocks.fences, blocks.open_fences, blocks.tables)


def title_of(text: str) -> str:
    """Return the title of a document as plain text: that of its front matter, or its first heading, or nothing."""
    title = read_front_matter(text).title
    return title or next(headings(text), "")


def headings(text: str) -> Iterator[str]:
    """Yield the headings of a document as plain text, without empty ones."""
    marked = (section.path[-1].partition(" ")[2] for section in read_structure(text).sections if section.path)
    return filter(None, (plain(heading) for heading in marked if heading))


def without_attributes(heading: str) -> str:
    """Return the text of a heading without what only tools read behind it."""
    return heading if len(heading) > MAX_HEADING else ATTRIBUTES.sub("", heading)


def plain(line: str) -> str:
    """Return a line of Markdown as it is read: without marks, link targets and HTML tags."""
    (inline,) = _inline_parser().parseInline(line.strip())
    return "".join(token.content for token in inline.children or () if token.type != "html_inline").strip()


def _collect(blocks: _Blocks, token: "Token", inline: "Token | None", lines: Sequence[int]) -> None:
    first, last = token.map or (0, 0)
    span = Span(lines[first], lines[last])
    start = span.start if blocks.invisible_from is None else blocks.invisible_from
    if token.type == "heading_open" and token.level == 0 and token.markup.startswith("#") and inline is not None:
        text = _heading_text(token.markup, inline.content)
        blocks.headings.append(Heading(start, span.end, len(token.markup), text))
    elif token.type == "fence":
        (blocks.fences if _is_closed(token) else blocks.open_fences).append(span)
    elif token.type == "table_open":
        blocks.tables.append(span)
    elif token.type in ("code_block", "html_block"):
        blocks.fences.extend(_inner_fences(token.content, lines[first : last + 1]))
    if token.level == 0:
        blocks.invisible_from = start if INVISIBLE.fullmatch(_content(token, inline)) else None


def _content(token: "Token", inline: "Token | None") -> str:
    """Return the text of a paragraph or HTML block; empty for other blocks."""
    if token.type == "paragraph_open" and inline is not None:
        return inline.content
    return token.content if token.type == "html_block" else ""


def _inner_fences(content: str, lines: Sequence[int]) -> Iterator[Span]:
    """Yield the closed fences inside indented text or HTML, which are not fences in CommonMark.

    Documentation tools (tabs, notes, `<details>`) show them as code. `lines`: the offset of each line of `content`.
    """
    if "```" in content or "~~~" in content:
        for token in _parsed(block_parser(inner=True), content):
            if token.type == "fence" and token.map is not None and _is_closed(token):
                yield Span(lines[token.map[0]], lines[token.map[1]])


def _is_closed(fence: "Token") -> bool:
    """Whether a fence has a closing mark: then two of its lines are not content."""
    first, last = fence.map or (0, 0)
    return fence.content.count("\n") == last - first - 2


def _heading_text(marks: str, content: str) -> str:
    text = f"{marks} {without_attributes(content)}".rstrip()
    return text if len(text) <= MAX_HEADING else text[: MAX_HEADING - 1] + "…"


def _sections(text: str, headings: Sequence[Heading]) -> list[Section]:
    first = headings[0].start if headings else len(text)
    sections = [Section(0, first, 0, (), bare=False)] if text[:first].strip() else []
    enclosing: list[Heading] = []
    for heading, following in zip_longest(headings, headings[1:]):
        end = following.start if following else len(text)
        enclosing = [outer for outer in enclosing if outer.level < heading.level] + [heading]
        path = tuple(outer.text for outer in enclosing)
        sections.append(Section(heading.start, end, heading.level, path, not text[heading.end : end].strip()))
    return sections


def _line_starts(text: str) -> list[int]:
    """Return the offset of each line, as CommonMark counts lines, and the end of the text after them."""
    starts = [0, *(match.end() for match in LINE_END.finditer(text))]
    return starts if starts[-1] == len(text) else [*starts, len(text)]


def _parsed(parser: "MarkdownIt", text: str) -> Iterable["Token"]:
    # Add a final line end, so that every line of an open fence has one: `_is_closed` counts them.
    return parser.parse(text if text.endswith(("\n", "\r")) else text + "\n")


@cache
def block_parser(*, inner: bool = False) -> "MarkdownIt":
    """Return a parser without inline text and link references: thousands of references take quadratic time.

    `inner`: it recognizes fences at any indentation and inside HTML.
    """
    from markdown_it import MarkdownIt  # noqa: PLC0415  takes 0.1 s and is only needed for storing documents

    parser = nesting_deeply(MarkdownIt("commonmark")).disable(["inline", "text_join", "reference"])
    return _compiled(parser.disable(["code", "html_block"]) if inner else parser.enable("table"))


def nesting_deeply(parser: "MarkdownIt") -> "MarkdownIt":
    """Make the parser read the whole document, however deeply its lists and quotes are nested.

    markdown-it skips the rest of the document at its limit. Here, deeper marks of lists and quotes are text.
    """
    from markdown_it.rules_block import blockquote, list_block, paragraph  # noqa: PLC0415  as above

    limits = ((list_block, DEEPEST_LIST), (blockquote, DEEPEST_QUOTE))

    def marks_as_text(state: "StateBlock", first: int, last: int, silent: bool) -> bool:  # noqa: FBT001  markdown-it's
        too_deep = any(state.level >= most and mark(state, first, last, True) for mark, most in limits)  # noqa: FBT003
        return too_deep and paragraph(state, first, last, silent)

    parser.options["maxNesting"] = DEEPEST_LIST + 2
    parser.block.ruler.before("blockquote", "marks_as_text", marks_as_text)
    return parser


@cache
def _inline_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415  as above

    return _compiled(MarkdownIt("commonmark"))


def _compiled(parser: "MarkdownIt") -> "MarkdownIt":
    """Return the parser after using it once, so that threads never share it while its rules are being compiled."""
    parser.parse("#")
    return parser


def _touches(spans: Sequence[Span], start: int, end: int) -> bool:
    at = bisect_right(spans, start, key=lambda span: span.end)
    return at < len(spans) and spans[at].start < end

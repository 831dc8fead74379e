"""Finds the headings, code fences and tables of a Markdown document, as offsets into the document.

markdown-it-py parses the blocks (CommonMark plus tables). langchain's ExperimentalMarkdownSyntaxTextSplitter, which the
specification names for this, returns strings that do not add up to the document: it drops `---` and `***` lines, drops
everything after an unclosed fence, closes a `~~~` fence at a backtick fence, and misses indented fences.
"""

import re
import tomllib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from itertools import pairwise, takewhile, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import yaml

from vector_memory.domain import Span

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token


# The front matter of a document: YAML between lines of `---`, or TOML between lines of `+++`.

LINE = r"[^\r\n]*+(?:\r\n?|\n)"
# YAML has a key, or only comments: a text may also begin with a rule and contain another.
KEY = rf"(?:[ \t]*(?:#{LINE}|(?:\r\n?|\n)))*[\w\"'$.{{][^\r\n:]*:(?![^\s])(?s:.*?)"
YAML = re.compile(
    rf"\ufeff?---(?:[ \t]*ya?ml)?[ \t]*(?:\r\n?|\n)(?P<values>{KEY}|(?:#{LINE})+)"
    r"(?<=[\r\n])(?:---|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)"
)
TOML = re.compile(r"\ufeff?\+\+\+[ \t]*(?:\r\n?|\n)(?P<values>(?s:.*?))(?<=[\r\n])\+\+\+[ \t]*(?:\r\n?|\n|\Z)")

FIELD = re.compile(r"^(?=[^\s#-])", re.MULTILINE)
# `title: One: two` is invalid YAML, but common.
PAIR = re.compile(r"^(\w+):[ \t]+[\"']?([^\r\n]*?)[\"']?[ \t]*$", re.MULTILINE)

SEPARATOR = re.compile(r",|\s(?=#)")
NOTHING = {"", "~", "null"}

MAX_LENGTH = 16_000
"""Characters. Values of longer front matter are ignored: YAML parses slowly, and real front matter is short."""


class FrontMatter(NamedTuple):
    """The title, tags and date in a document's front matter.

    `end`: where the text begins, 0 without front matter. `date`: in ISO 8601.
    """

    end: int = 0
    title: str = ""
    tags: tuple[str, ...] = ()
    date: str | None = None


def front_matter_end(text: str) -> int:
    """Return the end of the front matter; 0 if there is none."""
    found = YAML.match(text) or TOML.match(text)
    return found.end() if found else 0


def read_front_matter(text: str) -> FrontMatter:
    """Read the front matter. Values of an unknown form are ignored."""
    found = YAML.match(text) or TOML.match(text)
    if not found:
        return FrontMatter()
    source = found["values"] if len(found["values"]) <= MAX_LENGTH else ""
    values = (_yaml if found.re is YAML else _toml)(source)
    named = {str(key).lower(): value for key, value in values.items()}
    return FrontMatter(found.end(), _text(named.get("title")), _tags(_tags_in(named)), _date(named.get("date")))


def _yaml(source: str) -> Mapping[str, object]:
    try:
        values = yaml.load(source, yaml.BaseLoader)  # noqa: S506  builds only strings, lists and mappings
    except (yaml.YAMLError, ValueError, RecursionError):
        return _pairs(source)
    return values if isinstance(values, dict) else {}


def _pairs(source: str) -> dict[str, object]:
    """Return the fields of invalid YAML, each parsed alone, or else as it is written."""
    values: dict[str, object] = {}
    for part in FIELD.split(source.replace("\r\n", "\n").replace("\r", "\n")):
        try:
            alone = yaml.load(part.replace("\t", "  "), yaml.BaseLoader)  # noqa: S506  as above
        except (yaml.YAMLError, ValueError, RecursionError):
            alone = dict(PAIR.findall(part))
        values |= alone if isinstance(alone, dict) else {}
    return values


def _toml(source: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(source.replace("\r\n", "\n").replace("\r", "\n"))
    except (ValueError, RecursionError):
        return {}


def _text(value: object) -> str:
    """Return a value on one line; empty unless it is a scalar."""
    text = " ".join(str(value).split()) if isinstance(value, str | int | float | date) else ""
    return "" if text in NOTHING else text


def _tags_in(values: Mapping[str, object]) -> object:
    """Return the tags: Zola keeps them in `taxonomies`, and Obsidian also has a single `tag`."""
    taxonomies = values.get("taxonomies")
    inner = taxonomies.get("tags") if isinstance(taxonomies, dict) else None
    return values.get("tags") or inner or values.get("tag")


def _tags(value: object) -> tuple[str, ...]:
    """Return the tags of a list, or of a text with commas or `#`, without the `#`."""
    each = value if isinstance(value, list) else SEPARATOR.split(_text(value).strip("[]"))
    each = [tag.get("label") if isinstance(tag, dict) else tag for tag in each]
    return tuple(dict.fromkeys(filter(None, (_text(tag).strip("\"'").lstrip("#").strip() for tag in each))))


def _date(value: object) -> str | None:
    """Return a date or time in ISO 8601, in UTC unless it has a time zone."""
    try:
        moment = datetime.fromisoformat(re.sub(r"\s+(?=[+-]\d)", "", _text(value)))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


_start = attrgetter("start")

# Every chunk repeats its heading path; a heading of 500,000 characters must not be repeated a thousand times.
MAX_HEADING = 200

DEEPEST_LIST, DEEPEST_QUOTE = 100, 20
"""Nesting levels: two per list, one per quote. Each quote parses its lines again."""

BOM = "\ufeff"

LINE_END = re.compile(r"\r\n?|\n")

INVISIBLE = re.compile(
    r"(?>(?:\s++|<!--(?>(?:[^-]++|-(?!->))*)-->|<a\b[^<>]*+>\s*+</a\s*+>|<a\b[^<>]*+(?<=/)>)+)", re.IGNORECASE
)
"""HTML comments and anchors, which are invisible when rendered."""


ATTRIBUTE = r"(?:-|[#.][^\s{}]+|[\w-]+=(?:\"[^\"{}]*\"|'[^'{}]*'|[^\s\"'{}]+))"
ATTRIBUTES = re.compile(
    rf"(?<=[^\s\\])(?:\s*\{{:?\s*{ATTRIBUTE}(?:\s+{ATTRIBUTE})*\s*\}}|\s*\{{/\*[^{{}}]*\*/\}}|\s*<!--(?:(?!-->).)*-->)+\s*\Z"
)
"""Attributes after headings that documentation tools do not show: `{#id .class}`, `{: #id}`, `{-}`, `{/* id */}`.
Comments are removed as well."""


class Section(NamedTuple):
    """A heading and the text up to the next heading of any level; level 0: the text before the first heading.

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
    """The range of a heading with the comments directly above it, its depth 1-6, and its text with its marks."""

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

        A bare heading that introduces the next one is in that one's path, so it does not shorten the result.
        """
        touched = self.sections[self.section_at(start) : bisect_left(self.sections, end, key=_start)]
        following = zip_longest(touched, touched[1:])
        paths = [section.path for section, after in following if section and not section.introduces(after)]
        common = takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))
        return tuple(level[0] for level in common)


@dataclass(slots=True)
class _Blocks:
    """The blocks found so far, by kind. `invisible_from`: the start of the comments and anchors just before."""

    headings: list[Heading] = field(default_factory=list)
    fences: list[Span] = field(default_factory=list)
    open_fences: list[Span] = field(default_factory=list)
    tables: list[Span] = field(default_factory=list)
    invisible_from: int | None = None


@lru_cache(maxsize=1)  # a document's title and its chunks are read from it
def read_structure(text: str) -> Structure:
    """Parse the blocks of a Markdown document, in time linear in its length.

    Headings are `#` to `######` outside lists and quotes. Underlined headings (`Title` above `---`) do not count: text
    above a rule looks the same and would end up in heading paths. Front matter belongs to a heading that follows it.
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
    """Return the title of a document as plain text: from its front matter, or its first heading, or empty."""
    title = read_front_matter(text).title
    return title or next(headings(text), "")


def headings(text: str) -> Iterator[str]:
    """Yield the headings of a document as plain text, without empty ones."""
    marked = (section.path[-1].partition(" ")[2] for section in read_structure(text).sections if section.path)
    return filter(None, (plain(heading) for heading in marked if heading))


def without_attributes(heading: str) -> str:
    """Remove the attributes after a heading."""
    return heading if len(heading) > MAX_HEADING else ATTRIBUTES.sub("", heading)


def plain(line: str) -> str:
    """Return a line of Markdown as plain text: without marks, link targets and HTML tags."""
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
    """Return the offset of each line, by CommonMark's definition of lines, and the end of the text."""
    starts = [0, *(match.end() for match in LINE_END.finditer(text))]
    return starts if starts[-1] == len(text) else [*starts, len(text)]


def _parsed(parser: "MarkdownIt", text: str) -> Iterable["Token"]:
    # Add a final line end, so that every line of an open fence has one: `_is_closed` counts them.
    return parser.parse(text if text.endswith(("\n", "\r")) else text + "\n")


@cache
def block_parser(*, inner: bool = False) -> "MarkdownIt":
    """Return a parser without inline text and link references: thousands of references take quadratic time.

    `inner`: recognizes fences at any indentation and inside HTML.
    """
    from markdown_it import MarkdownIt  # noqa: PLC0415  takes 0.1 s and is only needed for storing documents

    parser = nesting_deeply(MarkdownIt("commonmark")).disable(["inline", "text_join", "reference"])
    return _compiled(parser.disable(["code", "html_block"]) if inner else parser.enable("table"))


def nesting_deeply(parser: "MarkdownIt") -> "MarkdownIt":
    """Make the parser read the whole document, however deeply lists and quotes are nested.

    markdown-it skips the rest of the document at its limit. Here, deeper list and quote marks are text.
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
    """Use the parser once, so that threads never share it while it compiles its rules."""
    parser.parse("#")
    return parser


def _touches(spans: Sequence[Span], start: int, end: int) -> bool:
    at = bisect_right(spans, start, key=lambda span: span.end)
    return at < len(spans) and spans[at].start < end

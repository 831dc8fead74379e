"""Finds the numbers on the pages that nothing shows. tests/claims.md says what shows a number."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vector_memory.settings import Settings

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "claims.md"
GENERATED = {"commands.md", "configuration.md", "schema.md", "tools.md"}
"""Pages that scripts/make_docs.py writes from the code."""

LEFT_OUT = re.compile(r"^ *```.*?^ *```|<!-- ([\w ]+): begin -->.*?<!-- \1: end -->", re.MULTILINE | re.DOTALL)
"""Code, and what a benchmark has written."""

ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")
SENTENCE_END = re.compile(r"(?<=[.:;!?])\s+(?=[A-Z`*\[])")
FILE = re.compile(r"\b(?:tests|benchmarks)/[\w/]+(?:\.\w+)?(?:::\w+)?")
CONSTANT = re.compile(r"`(vector_memory[\w.]*):(\w+)`")
SETTING = re.compile(r"`VECTOR_MEMORY_(\w+)`")
LINK = re.compile(r"\]\((?:[\w.]+/)*([\w-]+\.md)")
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
UNITS = (1, 0.01, 60, 1_000, 10**6, 10**9, 2**10, 2**20, 2**30)
"""What a number on a page is multiplied by to be a constant: hundredths, minutes, kB, MB, GB, KiB, MiB, GiB."""

NAMES = "Python|PostgreSQL|pgvector|psycopg|SQLite|Claude Code|Codex|Citus|ISO|RFC|version|step"
"""What a number follows that says which one."""

NO_CLAIM = re.compile(
    "|".join(
        (
            r"`[^`]*`",  # code
            r'"[^"]*"',  # examples
            r"\]\([^)]*\)|(?:https?://|arXiv:)\S+",  # where a link leads
            r"\b[A-Za-z][\w@/.-]*\d[\w.-]*",  # names, such as SHA-256
            r"\b\d+(?:\.\d+){2,}|\b\d+(?:\.\d+)? or newer",  # versions
            rf"\b(?:{NAMES}) \d[\d.]*(?: (?:and|or|to) \d[\d.]*)*",
            r"\b(?:19|20)\d\d(?:-\d\d)*\b",  # dates
            r"\b0\d+\b",  # permissions
            r"(?<![\d.,])[01](?![.,]?\d|\s?(?:%|s|ms|[kKMG]i?B|bytes?|tokens?)\b)",  # bounds, such as 0 to 1
        )
    )
)
"""What nothing has to show."""


class Sentence(NamedTuple):
    """A sentence, and the text around it that may name what shows it."""

    line: int
    context: str
    text: str


class Claims(NamedTuple):
    """The list: the pages of figures, and what shows the words that contain a number."""

    figures: dict[str, str]
    shown_by: dict[str, str]


def sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences, items and rows of a page.

    What shows an item stands in it, or in the paragraph before the list; all else may be shown by its whole section.
    """
    whole = text.splitlines()
    prose = LEFT_OUT.sub(lambda found: "\n" * found[0].count("\n"), text).splitlines()
    starts = [number for number, line in enumerate(prose) if line.startswith("#")]
    block: list[str] = []
    before = ""
    for number, line in enumerate([*prose, ""]):
        if block and (not line.strip() or line.startswith(("#", "|")) or ITEM.match(line)):
            words = " ".join(block)
            if ITEM.match(words):
                words = ITEM.sub("", words, count=1)
                context = f"{before} {words}"
            else:
                first = max((start for start in starts if start < number), default=0)
                last = min((start for start in starts if start >= number), default=len(whole))
                context, before = "\n".join(whole[first:last]), words
            for sentence in SENTENCE_END.split(words):
                yield Sentence(number - len(block) + 1, context, sentence)
            block = []
        if line.startswith("#"):
            before = ""
        elif line.strip():
            block.append(line.strip())


def listed() -> Claims:
    """Read the list. Its rows have two cells: what is claimed, and what shows it; a link claims a whole page."""
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", LIST.read_text(encoding="utf-8"), re.MULTILINE)
    rows = [row for row in rows if re.search(r"\d|\]\(", row[0])]
    figures = {LINK.findall(claimed)[0]: shown for claimed, shown in rows if LINK.search(claimed)}
    return Claims(figures, {claimed: shown for claimed, shown in rows if not LINK.search(claimed)})


def pages(claims: Claims) -> list[Path]:
    """Return the pages whose numbers are looked at one by one."""
    left_out = GENERATED | claims.figures.keys()
    docs = sorted(page for page in (ROOT / "docs").rglob("*.md") if page.name not in left_out)
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *docs]


def without_evidence(text: str, claims: Claims) -> Iterator[Sentence]:
    """Yield the sentences of a page with a number that neither the list nor the page shows."""
    for sentence in sentences(text):
        linked = claims.figures.keys() & {*LINK.findall(sentence.text)}
        shown = linked or any(map(exists, FILE.findall(sentence.context)))
        rest = sentence.text
        for words in claims.shown_by:
            rest = rest.replace(words, "")
        for name in SETTING.findall(sentence.text):
            rest = rest.replace(f"{default_of(name):,}", "")
        if not shown and re.search(r"\d", NO_CLAIM.sub("", rest)):
            yield sentence


def default_of(setting: str) -> float:
    """Return the default of a setting, by the name of its variable; 0 if it is no number."""
    field = Settings.model_fields.get(setting.lower())
    return field.default if field and isinstance(field.default, int | float) else 0


def exists(file: str) -> bool:
    """Return whether there is this file, and the test in it that is named."""
    path, _, test = file.partition("::")
    found = ROOT / path
    return found.exists() and (not test or f"def {test}(" in found.read_text(encoding="utf-8"))


def is_shown(words: str, shown_by: str) -> bool:
    """Return whether what the list names is there, and each constant or default equals a number of the words."""
    values = [getattr(importlib.import_module(module), name) for module, name in CONSTANT.findall(shown_by)]
    values += map(default_of, SETTING.findall(shown_by))
    files = FILE.findall(shown_by)
    said = [float(number.replace(",", "")) for number in NUMBER.findall(words)]
    equal = all(any(abs(number * unit - value) < 1e-9 for number in said for unit in UNITS) for value in values)
    return bool(values or files) and equal and all(map(exists, files))

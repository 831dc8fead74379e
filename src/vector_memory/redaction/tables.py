"""Finds secrets in Markdown tables, where the name stands at the head of the column or of the row."""

import re
from collections.abc import Callable, Iterator

from vector_memory.redaction.judging import is_key, is_spoken
from vector_memory.redaction.rule import Searched

HEAD = re.compile(
    r"^(?P<names>[^|\n]{0,1000}+\|[^\n]{0,1000}+)\n[ \t]{0,9}+\|?[ \t]{0,9}+:?-[ \t:|-]{1,1000}+\n", re.MULTILINE
)
RULER = re.compile(r"\n[ \t]{0,9}+\|?[ \t]{0,9}+:?-[ \t:|-]{1,1000}+\n")
"""The line below a head: a text without one is not searched for heads, which takes longer."""
PAIR = re.compile(
    r"^[ \t]{0,9}\|(?P<name>[^|\n]{3,80})\|[ \t`*]{0,40}+(?P<secret>[^\s|`*]{6,200}+)[ \t`*]{0,40}+\|", re.MULTILINE
)
"""A row whose first cell is a name and whose second one is a value of one word."""

ROW = re.compile(r"[^\n|]*+\|[^\n]*+\n?")
CELL = re.compile(r"[^|\n]*+")
AROUND = " \t`*"


class Table:
    """The rule for one sort of column or row. `words`: how its name ends. `accepts`: judges a cell."""

    def __init__(self, name: str, words: str, accepts: Callable[[str], bool]) -> None:
        self.name = name
        either = words.replace(" ", "|").replace("_", "[ _-]")
        self._column = re.compile(rf"(?:.*[ _-])?(?:{either})", re.IGNORECASE)
        self._words = re.compile(either)
        self._accepts = accepts

    def spans(self, searched: Searched) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the secrets in a text."""
        text = searched.text
        if "|" not in text or not self._words.search(searched.lowered):
            return
        for pair in PAIR.finditer(text):
            if self._column.fullmatch(pair["name"].strip(AROUND)) and self._accepts(pair["secret"]):
                yield pair.span("secret")
        place = 0
        while RULER.search(text, place) and (head := HEAD.search(text, place)):
            names = [name.strip(AROUND) for name in head["names"].split("|")]
            wanted = {number for number, name in enumerate(names) if self._column.fullmatch(name)}
            place = head.end()
            while wanted and (row := ROW.match(text, place)):
                yield from self._in_row(text, row, wanted)
                place = row.end()

    def _in_row(self, text: str, row: re.Match[str], wanted: set[int]) -> Iterator[tuple[int, int]]:
        place = row.start()
        for number in range(max(wanted) + 1):
            cell = CELL.match(text, place, row.end())
            if cell is None:
                return
            secret = cell[0].strip(AROUND)
            if number in wanted and secret and " " not in secret and self._accepts(secret):
                start = text.index(secret, place)
                yield start, start + len(secret)
            place = cell.end() + 1


TABLES = (
    Table("password", "password passphrase passwort kennwort pass pwd pw", is_spoken),
    Table("secret", "secret token api_key apikey access_key", is_key),
)

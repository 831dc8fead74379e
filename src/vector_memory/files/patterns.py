"""The patterns of `.gitignore`, as gitignore(5) and Git's `wildmatch` read them.

They are matched to one entry of a folder at a time: whoever walks through folders does not look into ignored ones.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

TRAILING_SPACES = re.compile(r"(?<!\\) +\Z")
PIECE = re.compile(
    r"(?P<folders>(?:(?<=/)|\A)\*{2,}/)|(?P<inside>(?:(?<=/)|\A)\*{2,}\Z)|(?P<stars>\*+)|(?P<one>\?)"
    r"|\[(?P<not>[!^]?)(?P<set>\]?(?:\[:\w+:\]|\\.|[^\]\\])*)\]|\\(?P<escaped>.)|(?P<letter>[^\\\[])",
    re.DOTALL,
)
MEMBER = re.compile(r"\[:(?P<named>\w+):\]|(?P<first>\\.|[^\\])(?:-(?P<last>\\.|[^\\]))?", re.DOTALL)
CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \\t", "digit": "0-9", "lower": "a-z", "space": "\\s",
    "upper": "A-Z", "xdigit": "0-9A-Fa-f", "punct": "!-.:-@\\[-`{-~", "cntrl": "\\0-\\x1f\\x7f", "print": " -~",
    "graph": "!-~",
}  # fmt: skip


class Pattern(NamedTuple):
    """A line of rules. `whole`: it is matched to the path, not to the name alone. `ignores`: false for `!`."""

    regex: re.Pattern[str]
    whole: bool
    only_folders: bool
    ignores: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path below the folder of the rules is named."""
        text = path if self.whole else path.rpartition("/")[2]
        return (is_folder or not self.only_folders) and self.regex.fullmatch(text) is not None


def patterns_in(lines: Iterable[str]) -> list[Pattern]:
    """Return the patterns in lines of rules, without those that Git cannot read either."""
    return [pattern for line in lines if (pattern := _pattern(line)) is not None]


def said_of(path: str, patterns: Iterable[Pattern], *, is_folder: bool) -> bool | None:
    """Return whether patterns, the last one first, ignore a path; None: none of them names it."""
    return next((each.ignores for each in patterns if each.matches(path, is_folder=is_folder)), None)


def _pattern(line: str) -> Pattern | None:
    text = TRAILING_SPACES.sub("", line.removesuffix("\r"))
    ignores = not text.startswith("!")
    text = text if ignores else text[1:]
    name = text.removesuffix("/")
    regex = _regex(name.removeprefix("/"))
    if line.startswith("#") or not name or regex is None:
        return None
    return Pattern(regex, "/" in name, name != text, ignores)


def _regex(text: str) -> re.Pattern[str] | None:
    parts, place = [], 0
    while place < len(text):
        found = PIECE.match(text, place)
        part = _part(found) if found else None
        if found is None or part is None:
            return None
        parts.append(part)
        place = found.end()
    return re.compile("".join(parts), re.DOTALL)


def _part(found: re.Match[str]) -> str | None:
    """Return a part of a pattern as a regular expression; None if there is no such part."""
    match found.lastgroup:
        case "folders":
            return "(?:.*/)?"
        case "inside":
            return ".+"
        case "stars":
            return "[^/]*+" if found.end() == len(found.string) else "[^/]*"
        case "one":
            return "[^/]"
        case "set":
            return _set(found["set"], is_not=bool(found["not"]))
    return re.escape(found["escaped"] or found["letter"])


def _set(text: str, *, is_not: bool) -> str | None:
    members = []
    for member in MEMBER.finditer(text):
        if name := member["named"]:
            if name not in CLASSES:
                return None
            members.append(CLASSES[name])
        else:
            first, last = ((member[which] or "")[-1:] for which in ("first", "last"))
            if not last or first <= last:  # a range without characters matches nothing
                members.append(re.escape(first) + (f"-{re.escape(last)}" if last else ""))
    inner = "".join(members)
    if is_not:
        return f"[^/{inner}]"
    return f"(?!/)[{inner}]" if inner else "(?!)"

"""Texts with secrets, and texts that only look like it: read from tests/data/redaction, which its README describes."""

import random
import re
import string
import uuid
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "data/redaction"

ALPHABETS = {
    "hex": "0123456789abcdef",
    "digit": string.digits,
    "alnum": string.ascii_letters + string.digits,
    "letter": string.ascii_letters,
    "upper": string.ascii_uppercase + string.digits,
    "lower": string.ascii_lowercase + string.digits,
    "base32": string.ascii_uppercase + "234567",
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "b64": string.ascii_letters + string.digits + "+/",
    "url": string.ascii_letters + string.digits + "-_",
    "pass": string.ascii_letters + string.digits + "!$*.-_~",
}

PLACEHOLDER = re.compile(r"\{\{(\w*)(?::(\d+))?\}\}")
MARKED = re.compile("⟦(.*?)⟧", re.DOTALL)


class Secrets(NamedTuple):
    """A text, its sort, and the secrets in it."""

    sort: str
    text: str
    secrets: list[str]


def secrets(half: str) -> list[Secrets]:
    """Return the texts with secrets of a part: `development`, `held_out` or `attack`."""
    cases = []
    for line in _lines(f"secrets_{half}.txt"):
        sort, marked = line.split(" ", 1)
        cases.append(Secrets(sort, MARKED.sub(r"\1", marked), MARKED.findall(marked)))
    return cases


def tokens() -> list[tuple[str, str]]:
    """Return tokens of vendors with their sorts."""
    sorts = [line.split(" ", 1) for line in _lines("tokens.txt")]
    return [(sort, token) for sort, token in sorts]


def lookalikes(half: str) -> list[str]:
    """Return the texts without secrets of a part."""
    return list(_lines(f"lookalikes_{half}.txt"))


def _lines(name: str):
    dice = random.Random(name)
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        filled = PLACEHOLDER.sub(lambda found: _value(dice, found), line)
        yield re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), filled)


def _value(dice: random.Random, found: re.Match) -> str:
    match found.groups():
        case ("", _):
            return ""
        case ("uuid", _):
            return str(uuid.UUID(int=dice.getrandbits(128), version=4))
        case (name, length):
            return "".join(dice.choices(ALPHABETS[name], k=int(length)))

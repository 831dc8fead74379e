"""Rules for the regular expressions of the package."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{{1,2}\d*,?\d*\}{1,2})\+")


def test_no_possessive_quantifier_follows_a_group() -> None:
    """Python 3.11.0 to 3.11.4 matches wrongly if the group can backtrack; an atomic group says the same."""
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("published.json")])
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if POSSESSIVE_GROUP.search(line)
    ]
    assert found == []

"""Write the rules for tokens that gitleaks publishes, as data: `src/vector_memory/texts/redaction_rules.json`.

    uv run python scripts/make_redaction_rules.py path/to/gitleaks

The folder is a checkout of https://github.com/gitleaks/gitleaks, whose license (MIT) permits it. Taken are the rules
whose secret has a text of its own at or near its beginning. Left out are those for any value behind a vendor's name,
and those of which ours know the beginning.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from vector_memory.texts.redaction_rules import TOKENS

TARGET = Path(__file__).parents[1] / "src/vector_memory/texts/redaction_rules.json"
MIN_ANCHOR, MAX_ANCHORS = 3, 12

OPERATOR = "(?:=|>|:{1,3}=|\\|\\||:|=>|\\?=|,)[\\x60'\"\\s=]{0,5}"
END = re.compile(r"\(\?:\[\\x60'\"\\s;\]\|\\\\\[nr\]\|\$(?:\|\\b)?\)$|\(\?:\[\^\\w-\]\|\\z\)$|\\b$")

LEFT_OUT = {
    "curl-auth-user": "a command line, which our rules read",
    "curl-auth-header": "a command line, which our rules read",
    "generic-api-key": "generic",
    "private-key": "ours removes what is between the lines, too",
    "jwt-base64": "begins like any encoded text",
    "kubernetes-secret-yaml": "generic",
    "aws-amazon-bedrock-api-key-short-lived": "only the beginning of the key",
    "square-access-token": "EAAA begins many encoded texts",
    "sourcegraph-access-token": "any commit's name",
    "freemius-secret-key": "a line of PHP",
    "hashicorp-tf-password": "generic",
    "nuget-config-password": "generic",
    "slack-webhook-url": "ours",
    "microsoft-teams-webhook": "ours",
    "sidekiq-sensitive-url": "a password in a URL",
    "facebook-access-token": "begins with a number",
    "gocardless-api-token": "live_ begins names",
    "mapbox-api-token": "ours",
}
WRITTEN = {
    "1password": "1Password",
    "aws": "AWS",
    "amazon": "Amazon",
    "api": "API",
    "ca": "CA",
    "clickhouse": "ClickHouse",
    "frameio": "Frame.io",
    "gitlab": "GitLab",
    "hashicorp tf": "Terraform",
    "maxmind": "MaxMind",
    "openshift": "OpenShift",
    "personnal": "personal",
    "readme": "ReadMe",
    "sendinblue": "Brevo",
}
PUBLIC = re.compile(r"-id$|-pub-|-public-|client-id")


class Published(NamedTuple):
    """A rule as `rules.py` reads it. `before`: how many characters of the secret stand before the anchor."""

    name: str
    anchors: list[str]
    pattern: str
    min_entropy: float
    any_case: bool
    before: int


def from_go(pattern: str) -> str:
    """Return a pattern of Go in Python's words: flags in the middle reach to the end of their group."""
    pattern = pattern.replace("[[:alnum:]]", "[A-Za-z0-9]").replace("\\z", "\\Z")
    while (place := pattern.find("(?i)")) >= 0:
        end = end_of_group(pattern, place + 4)
        pattern = f"{pattern[:place]}(?i:{pattern[place + 4 : end]}){pattern[end:]}"
    return pattern


def end_of_group(pattern: str, place: int) -> int:
    """Return where the group ends that a place is in."""
    depth, in_class = 0, False
    while place < len(pattern):
        match pattern[place]:
            case "\\":
                place += 1
            case "[" if not in_class:
                in_class = True
            case "]":
                in_class = False
            case "(" if not in_class:
                depth += 1
            case ")" if not in_class:
                if depth == 0:
                    return place
                depth -= 1
        place += 1
    return place


def beginnings(items: Any) -> list[tuple[str, bool]]:
    """Return the texts with which a parsed pattern begins, and of each whether the pattern is no longer than it."""
    starts = [("", True)]
    for kind, value in items:
        follow = literals(kind, value)
        if follow is None or len(starts) * len(follow) > MAX_ANCHORS:
            return [(start, False) for start, _ in starts]
        starts = [(a + b, more) for a, _ in starts for b, more in follow]
        if not all(more for _, more in starts):
            return starts
    return starts


def literals(kind: Any, value: Any) -> list[tuple[str, bool]] | None:
    """Return the texts of a part of a pattern, or None if there are too many."""
    if kind is ops.LITERAL:
        return [(chr(value), True)]
    if kind is ops.AT:
        return [("", True)]
    if kind is ops.SUBPATTERN:
        return beginnings(value[-1])
    if kind is ops.BRANCH:
        return [start for branch in value[1] for start in beginnings(branch)]
    if kind is ops.IN and all(one is ops.LITERAL for one, _ in value):
        return [(chr(letter), True) for _, letter in value]
    return None


def anchored(pattern: str) -> tuple[list[str], int]:
    """Return the anchors of a pattern, and how many characters stand before them."""
    items = [item for item in flat(_parser.parse(pattern)) if item[0] is not ops.AT]
    before = 0
    for number, (kind, value) in enumerate(items):
        anchors = sorted({start for start, _ in beginnings(items[number:])})
        if anchors and all(len(anchor) >= MIN_ANCHOR for anchor in anchors):
            return anchors, before
        width = value[0] if kind is ops.MAX_REPEAT and value[0] == value[1] else int(kind in (ops.IN, ops.LITERAL))
        if not width:
            break
        before += width
    return [], 0


def flat(items: Any) -> list[tuple[Any, Any]]:
    """Return the parts of a pattern; a group with one way through it is its parts."""
    parts: list[tuple[Any, Any]] = []
    for kind, value in items:
        parts += flat(value[-1]) if kind is ops.SUBPATTERN else [(kind, value)]
    return parts


def converted(rule: dict[str, Any]) -> Published | None:
    """Return one of gitleaks' rules as one of ours, or None if it is not distinctive."""
    source = rule.get("regex", "")
    if not source or rule["id"] in LEFT_OUT or PUBLIC.search(rule["id"]):
        return None
    body = END.sub("", source.split(OPERATOR, 1)[-1])
    if source.startswith("(?i)") and not body.startswith("(?i)"):
        body = f"(?i){body}"
    body = re.sub(r"\((?!\?)", "(?:", from_go(body).replace("\\b", ""))
    anchors, before = anchored(body)
    ours = [anchor for token in TOKENS for anchor in token.anchors]
    if not anchors or all(anchor.startswith(tuple(ours)) for anchor in anchors):
        return None
    any_case = "(?i:" in body
    anchors = sorted({anchor.lower() if any_case else anchor for anchor in anchors})
    return Published(named(rule["id"]), anchors, body, rule.get("entropy", 0.0), any_case, before)


def named(identity: str) -> str:
    """Return the name of a rule as people write it."""
    name = identity.replace("-", " ")
    for word, written in WRITTEN.items():
        name = re.sub(rf"\b{word}\b", written, name)
    return name[0].upper() + name[1:]


def main() -> None:
    """Read the rules and write ours."""
    folder = Path(sys.argv[1])
    rules = tomllib.loads((folder / "config/gitleaks.toml").read_text(encoding="utf-8"))["rules"]
    commit = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    found = [rule._asdict() for rule in map(converted, rules) if rule]
    license_text = (folder / "LICENSE").read_text(encoding="utf-8")
    content = {
        "source": f"https://github.com/gitleaks/gitleaks, commit {commit.stdout.strip()}",
        "license": license_text,
        "rules": found,
    }
    TARGET.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found)} of {len(rules)} rules.")


if __name__ == "__main__":
    main()

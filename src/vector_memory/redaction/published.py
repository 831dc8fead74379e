"""The rules that gitleaks publishes for tokens, as far as they are distinctive and not among ours.

`scripts/make_redaction_rules.py` writes `published.json`, which holds their license, too.
"""

import json
import re
from importlib.resources import files

from vector_memory.redaction.judging import is_token
from vector_memory.redaction.rule import WORD_ENDS, WORD_STARTS, Rule

MIN_ENTROPY = 3.0

PUBLISHED = tuple(
    Rule(
        one["name"],
        tuple(one["anchors"]),
        f"{WORD_STARTS}(?P<secret>{one['pattern']}){WORD_ENDS}",
        re.NOFLAG,
        max(one["min_entropy"], MIN_ENTROPY),
        is_token,
        one["any_case"],
        one["before"],
        in_word=True,
    )
    for one in json.loads((files(__package__) / "published.json").read_text(encoding="utf-8"))["rules"]
)

"""The package only gets smaller and simpler: no count of scripts/ratchet.py rises above its limit."""

import importlib.util
import json
from pathlib import Path

from call_path import of_calls

ROOT = Path(__file__).parent.parent
LIMITS = json.loads((ROOT / "tests/ratchet.json").read_text())


def counted() -> dict[str, int]:
    """Return what the script counts."""
    spec = importlib.util.spec_from_file_location("ratchet", ROOT / "scripts/ratchet.py")
    assert spec
    assert spec.loader
    ratchet = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ratchet)
    return dict(ratchet.counted())


def test_no_count_rises_above_its_limit() -> None:
    counts = counted() | of_calls()
    assert counts.keys() == LIMITS.keys()
    above = {name: f"{count:,}, limit {LIMITS[name]:,}" for name, count in counts.items() if count > LIMITS[name]}
    assert not above, "simplify, or raise the limit with a reason in docs/lab/choices.md"

"""The table of breaks stays usable: `scripts/mutate.py` runs the tests that must fail for each."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_each_break_of_the_table_can_be_made_and_its_tests_exist() -> None:
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "scripts/mutate.py")
    assert spec
    assert spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    breaks = script.mutations()
    assert len({one.claim for one in breaks}) == len(breaks) >= 60
    assert {one.claim: fault for one in breaks if (fault := one.fault(ROOT))} == {}

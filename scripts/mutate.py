"""Breaks the product, one claim at a time, and shows that a test fails: `uv run python scripts/mutate.py [WORD...]`.

`tests/mutations.toml` holds the breaks. Each names the claim, the text and its replacement, and the tests that must
fail. With words, only the claims that contain all of them are tried; `--list` prints them.

The working tree, with what is not committed, is copied and stays as it is. The copy has its own environment, so that
processes that tests start import the copy, too. The tests run unbroken first: one that fails anyway shows nothing.
Exits with 1 unless a test fails for each break.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "tests/mutations.toml"

KILLED = "killed"
PASSED, FAILED = 0, 1
"""What pytest exits with. After anything else, such as a syntax error, no test has judged a break."""

FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", re.MULTILINE)
"""A line of pytest's summary, which names a test."""


@cache
def sources(root: Path) -> dict[Path, str]:
    """Return the text of each file of the package in a tree."""
    return {path: path.read_text() for path in (root / "src").rglob("*.py")}


class Mutation(NamedTuple):
    """A break. `old` occurs once in the package, or in `file`. `tests`: files or tests, as pytest names them."""

    claim: str
    old: str
    new: str
    tests: list[str]
    file: str = ""

    def places(self, root: Path) -> list[Path]:
        """Return the file to break in a tree, as often as it has the text to replace."""
        texts = {path: text for path, text in sources(root).items() if str(path).endswith(self.file)}
        return [path for path, text in texts.items() for _ in range(text.count(self.old))]

    def fault(self, root: Path) -> str:
        """Say why the break cannot be made in a tree, or a test cannot be found; empty if all is well."""
        if (times := len(self.places(root))) != 1 or self.old == self.new:
            return f"the text to replace is there {times} times, not once"
        missing = [test for test in self.tests if not is_there(root, test)]
        return f"there is no {missing[0]}" if missing else ""


def is_there(root: Path, test: str) -> bool:
    """Return whether a file of tests exists, and has the function that is named."""
    path, _, name = test.partition("::")
    return (root / path).is_file() and f"def {name.partition('[')[0]}" in (root / path).read_text()


def mutations() -> list[Mutation]:
    """Return the breaks of the table."""
    return [Mutation(**one) for one in tomllib.loads(TABLE.read_text())["mutation"]]


def uv(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run uv in a folder."""
    return subprocess.run(["uv", *words], cwd=folder, capture_output=True, text=True, check=False)


def copy_tree(folder: Path) -> None:
    """Copy the working tree, without what Git ignores, and give the copy an environment that imports it."""
    listed = subprocess.check_output(["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT, text=True)
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_symlink() or source.is_file():  # otherwise it was deleted
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    uv(folder, "sync", "--frozen").check_returncode()
    imported = uv(folder, "run", "--no-sync", "python", "-c", "import vector_memory; print(vector_memory.__file__)")
    if not Path(imported.stdout).is_relative_to(folder):
        raise SystemExit(f"The tests would not import the copy, but {imported.stdout}{imported.stderr}")


def run(folder: Path, tests: Iterable[str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run tests in the copy."""
    return uv(folder, "run", "--no-sync", "pytest", *options, *tests)


def verdict(folder: Path, one: Mutation) -> str:
    """Break the copy, run the tests, and restore it; say what they found."""
    (file,) = one.places(folder)
    whole = file.read_text()
    file.write_text(whole.replace(one.old, one.new))
    try:
        ended = run(folder, one.tests, "-x", "-n", "0")
    finally:
        file.write_text(whole)
    if ended.returncode == FAILED and FAILURE.search(ended.stdout):
        return KILLED
    return "SURVIVED" if ended.returncode == PASSED else f"NOT JUDGED, pytest exits with {ended.returncode}"


def main(words: list[str]) -> int:
    """Try the breaks that are asked for, and return the exit code."""
    chosen = [one for one in mutations() if all(word.lower() in one.claim.lower() for word in words)]
    with tempfile.TemporaryDirectory() as temporary:
        folder, began = Path(temporary).resolve(), time.monotonic()
        copy_tree(folder)
        said = run(folder, sorted({test for one in chosen for test in one.tests}), "-n", "auto").stdout
        failing = FAILURE.findall(said)
        print(f"Without a break: {said.splitlines()[-1]}", flush=True)
        killed = 0
        for number, one in enumerate(chosen, 1):
            start = time.monotonic()
            if fault := one.fault(folder):
                found = f"DOES NOT APPLY, {fault}"
            elif any(failed.startswith(test) for failed in failing for test in one.tests):
                found = "TESTS FAIL WITHOUT THE BREAK"
            else:
                found = verdict(folder, one)
            killed += found == KILLED
            print(f"{number:>4} {found} ({time.monotonic() - start:.0f} s): {one.claim}", flush=True)
    print(f"{killed} of {len(chosen)} breaks make a test fail ({time.monotonic() - began:.0f} s).")
    return 0 if killed == len(chosen) else 1


if __name__ == "__main__":
    if "--list" in sys.argv[1:]:
        print(*(one.claim for one in mutations()), sep="\n")
    else:
        sys.exit(main(sys.argv[1:]))

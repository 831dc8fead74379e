"""Compare what evidence says of lines with what Git knows: `uv run python benchmarks/evidence.py [REPOSITORY] [SPANS]`.

Spans of files at one commit are judged at a later one, up to 600 commits later. The truth is `git blame --reverse`: the
last commit that has each line, and where. Each row is a verdict, and how often it was right; `found`: the share of the
spans with this truth that got it. At last, how long the notes of a search take.
"""

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from vector_memory.domain import Evidence, NewMemory
from vector_memory.domain.evidence import FileLines
from vector_memory.reading.evidence import Checkout
from vector_memory.store import file_lines

REPOSITORY = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
SPANS = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000  # noqa: PLR2004
TEXTS = (".py", ".md", ".js", ".toml", ".c", ".go", ".rs", ".ts")
DISTANCES, LENGTHS = (1, 5, 20, 50, 100, 200, 600), (1, 1, 2, 3, 5, 8, 12, 20, 30)

PICK = random.Random(7)  # noqa: S311 - the same spans each time

Verdict = tuple[str, int | None]


def git(*arguments: str) -> bytes | None:
    """Return what Git says; None if it fails."""
    ran = subprocess.run(["git", "-C", REPOSITORY, *arguments], capture_output=True, check=False)  # noqa: S607
    return None if ran.returncode else ran.stdout


def lines_of(*arguments: str) -> list[str]:
    """Return the lines that Git says."""
    return (git(*arguments) or b"").decode().splitlines()


def truth(one: Evidence, earlier: str, later: str) -> Verdict | None:
    """Return what became of lines according to Git; None if it cannot tell."""
    span = f"-L{one.first_line},{one.last_line}"
    said = git("blame", "--reverse", "--porcelain", span, f"{earlier}..{later}", "--", one.path)
    heads = [line.split() for line in (said or b"").split(b"\n") if not line.startswith(b"\t")]
    places = [(head[0].decode(), int(head[1])) for head in heads if len(head) > 2 and len(head[0]) == len(later)]  # noqa: PLR2004
    if not places:
        return None
    start = places[0][1]
    if places != [(later, start + more) for more in range(len(places))]:
        return "changed", None
    return ("fresh", None) if start == one.first_line else ("moved", start)


def judged(commits: list[str]) -> tuple[Verdict, Verdict] | None:
    """Return the truth on a random span, and the verdict; None if there is no such span."""
    place = PICK.randrange(max(1, len(commits) - 1))
    earlier, later = commits[place], commits[min(len(commits) - 1, place + PICK.choice(DISTANCES))]
    changed = lines_of("diff", "--name-only", "--diff-filter=MD", earlier, later)
    path = PICK.choice([name for name in changed if name.endswith(TEXTS)] or [""])
    content = FileLines.of(git("show", f"{earlier}:{path}") or b"", 0, 0)
    length = min(PICK.choice(LENGTHS), len(content.lines))
    start = PICK.randrange(1, len(content.lines) - length + 2)
    one = Evidence(path=path, first_line=start, last_line=start + length - 1).of(content)
    if not path or not any(one.span(content)):
        return None
    if (data := git("show", f"{later}:{path}")) is None:
        return ("gone", None), ("gone", None)
    known = truth(one, earlier, later)
    return known and (known, one.state_in(FileLines.of(data, 0, 0)))


def milliseconds(*, changes: bool) -> float:
    """Return how long the notes of 20 spans in ten files take. `changes`: after a change of each file."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.py") for number in range(10)]
        for file in files:
            file.write_text("".join(f"    line_{number}()\n" for number in range(500)))
        checkout = Checkout(file_lines, None)
        checkout.work_in(Path(folder))
        time.sleep(2.1)  # the times of files count only then
        sent = [{"path": file.name, "lines": f"{at}-{at + 20}"} for file in files for at in (10, 200)]
        new = NewMemory.of("report", "x", session_id="s", evidence=sent)
        held = {1: checkout.with_evidence(new, in_text=False).evidence}
        for file in files if changes else ():
            file.write_text(f"\n{file.read_text()}")
        begun = time.perf_counter()
        checkout.notes(held)
        return (time.perf_counter() - begun) * 1_000


def main() -> None:
    """Print the table."""
    commits = lines_of("rev-list", "--first-parent", "--reverse", "HEAD")
    pairs: list[tuple[Verdict, Verdict]] = []
    while len(pairs) < SPANS:
        pairs += filter(None, [judged(commits)])
    given, real = Counter(said[0] for _, said in pairs), Counter(known[0] for known, _ in pairs)
    right = Counter(said[0] for known, said in pairs if known == said)
    print(f"{len(pairs):,} spans in {len(commits):,} commits")
    for state in sorted(real | given):
        precision, recall = right[state] / max(1, given[state]), right[state] / max(1, real[state])
        print(f"{state:8} {given[state]:5} right {precision:.1%} found {recall:.1%}")
    same, changed = milliseconds(changes=False), milliseconds(changes=True)
    print(f"20 spans in ten files: {same:.2f} ms, after changes {changed:.2f} ms")


if __name__ == "__main__":
    main()

"""What reports take on the disk, in a SQLite file and in PostgreSQL.

    uv run --group benchmark benchmarks/performance/disk.py [FOLDER] [--reports 100]

The texts of a folder of Markdown, by default docs/, are cut into reports of 4,000 characters, about 1,000 tokens, which
the real server stores. What the first one takes, with the empty tables, does not count.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import cluster
from client import ROOT, Server
from files import size_mb

CHARACTERS = 4_000
SETTINGS = {"VECTOR_MEMORY_EMBED_IN_BACKGROUND": "false"}


def reports(folder: Path, count: int) -> list[str]:
    """Return as many reports as were asked for."""
    text = "\n\n".join(page.read_text(encoding="utf-8") for page in sorted(folder.rglob("*.md")))
    found = [text[start : start + CHARACTERS] for start in range(0, len(text) - CHARACTERS, CHARACTERS)]
    if len(found) < count:
        sys.exit(f"{folder} has text for {len(found)} reports only: pass more Markdown, or --reports.")
    return found[:count]


def mb_per_thousand(place: list[str], texts: list[str], size: Callable[[], float]) -> float:
    """Return what a thousand reports take in a memory, which is new."""
    sizes = []
    for some in (texts[:1], texts[1:]):
        server = Server(command=[sys.executable, str(ROOT / "main.py"), "serve", *place], settings=SETTINGS)
        server.initialize()
        for text in some:
            server.call("store_report", content=text, session_id="disk", agent_id="benchmark")
        server.stop()
        sizes.append(size())
    return (sizes[1] - sizes[0]) / (len(texts) - 1) * 1_000


def main() -> None:
    """Measure both engines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs")
    parser.add_argument("--reports", type=int, default=100)
    arguments = parser.parse_args()
    texts = reports(arguments.folder, arguments.reports)
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="vm") as folder:
        file = Path(folder) / "memory.db"
        with cluster.running(Path(folder)) as server:
            places: dict[str, tuple[list[str], Callable[[], float]]] = {
                "SQLite": (["--database-path", str(file)], lambda: size_mb(file)),
                "PostgreSQL": (["--database-url", cluster.address(server)], lambda: cluster.size_mb(server)),
            }
            for name, (place, size) in places.items():
                print(f"{name}: {mb_per_thousand(place, texts, size):.1f} MB for 1,000 reports", flush=True)


if __name__ == "__main__":
    main()

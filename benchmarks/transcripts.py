"""How long it takes to import past sessions, without embedding them.

uv run python -m benchmarks.transcripts FILE [--share 0.03]

FILE is a set of conversations: gzipped JSON with `corpus`, an object of texts whose turns begin with `**user:** ` or
`**assistant:** `. Each becomes a session of Claude Code, and results of tools are added, until the transcripts have
100 MB of which this share was said by users and agents. Prints the seconds of processor time to read the transcripts,
to redact what was said, and to import them.
"""

import argparse
import gc
import gzip
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from vector_memory.cli.main import RARELY
from vector_memory.redaction import redact
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.transcripts import claude
from vector_memory.transcripts.importing import Importer

SIZE = 100_000_000
FOLDER = "/home/ann/shop"
TURN = re.compile(r"(?:\A|\n\n)\*\*(user|assistant):\*\* ")


def conversations(path: Path) -> Iterator[list[tuple[str, str]]]:
    """Yield the turns of each conversation: who speaks, and what."""
    for text in json.loads(gzip.decompress(path.read_bytes()))["corpus"].values():
        _, *parts = TURN.split(text)
        yield list(zip(parts[::2], parts[1::2], strict=True))


def lines_of(session: str, turns: list[tuple[str, str]], filling: str) -> Iterator[str]:
    """Yield the lines of a transcript, with the result of a tool in each turn."""
    for number, (speaker, text) in enumerate(turns):
        about = {"timestamp": f"2026-01-01T{number // 60:02}:{number % 60:02}:00.000Z", "sessionId": session}
        about |= {"cwd": FOLDER, "isSidechain": False, "version": "2.1.330", "gitBranch": "main"}
        if speaker == "user":
            yield json.dumps({"type": "user", "message": {"role": "user", "content": text}} | about)
            result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": filling}
            yield json.dumps({"type": "user", "message": {"role": "user", "content": [result]}} | about)
        else:
            content = [{"type": "text", "text": text}]
            message = {"id": f"m{number}", "role": "assistant", "stop_reason": "end_turn", "content": content}
            yield json.dumps({"type": "assistant", "message": message} | about)


def make(source: Path, home: Path, share: float) -> int:
    """Write the transcripts into a home of Claude Code, and return their size in bytes."""
    told: list[list[tuple[str, str]]] = []
    said = 0
    for turns in conversations(source):
        if said >= share * SIZE:
            break
        told.append(turns)
        said += sum(len(text) for _, text in turns)
    questions = sum(speaker == "user" for turns in told for speaker, _ in turns)
    filling = "def f(x):\n    return x + 1  # as before\n" * ((SIZE - said) // questions // 44)
    folder = home / "projects" / claude.OTHER.sub("-", FOLDER)
    folder.mkdir(parents=True)
    for number, turns in enumerate(told):
        path = folder / f"session-{number}.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines_of(path.stem, turns, filling)), encoding="utf-8")
    return sum(path.stat().st_size for path in folder.iterdir())


def seconds(action: Callable[[], object]) -> float:
    """Return the processor time that this process needs."""
    start = time.process_time()
    action()
    return time.process_time() - start


def main() -> None:
    """Measure and print."""
    gc.set_threshold(RARELY)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--share", type=float, default=0.03)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        size = make(arguments.file, home, arguments.share)
        os.environ["CLAUDE_CONFIG_DIR"] = str(home)
        with SessionMemoryStore(home / "memory.db", Settings()) as store:
            paths = list(claude.transcripts(None))
            texts = [said.content for path in paths if (read := claude.read(path)) for said in read.said]
            stored = sum(map(len, texts))
            print(
                f"{len(paths):,} transcripts of {size / 1e6:.0f} MB; {len(texts):,} memories of {stored / 1e6:.1f} MB"
            )
            print(f"read: {seconds(lambda: [claude.read(path) for path in paths]):.2f} s")
            print(f"redact: {seconds(lambda: [redact(text) for text in texts]):.2f} s")

            store.store_memory("working_memory", "Loads the model.", session_id="first")

            def importing() -> None:
                Importer(store).run(["claude"], None, lambda _done, _total: None)

            print(f"import: {seconds(importing):.2f} s")
            print(f"import again: {seconds(importing):.2f} s")


if __name__ == "__main__":
    main()

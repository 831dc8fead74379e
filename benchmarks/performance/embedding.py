"""How fast the embedding engine starts and works, and how much memory it takes.

uv run benchmarks/performance/embedding.py [--against sentence-transformers]

Every start is a process of its own; its time is from before the process is started to its first vector.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from vector_memory.embedding import Embedder
from vector_memory.embedding.weights import find_weights
from vector_memory.texts.chunks import cut_passages

ONNX, REFERENCE = "onnxruntime", "sentence-transformers"
STARTS = 5
QUERIES = 200
QUERY = "how do we retry failed payments in the nightly job"  # 10 word pieces
BATCH = 32
ROUNDS = 6
PAGE = Path(__file__).parents[2] / "docs" / "lab" / "performance.md"


def load(engine: str) -> Embedder:
    """Load all-MiniLM-L6-v2 with one of the engines."""
    if engine == ONNX:
        from vector_memory.embedding.onnx_engine import OnnxEngine  # noqa: PLC0415 - only the measured engine is loaded

        return OnnxEngine(find_weights(None))
    from vector_memory.embedding.sentence_transformers_engine import SentenceTransformersEngine  # noqa: PLC0415

    return SentenceTransformersEngine("reference", find_weights(None).folder)


def megabytes() -> float | str:
    """Return the largest resident memory of this process so far; Linux only, as getrusage starts from the parent's."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - a name, not a path of ours
            return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024
    except OSError:
        return "?"


def texts_per_second(model: Embedder, texts: Sequence[str]) -> float:
    """Return the best of six rounds over these texts."""
    seconds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        model.embed(texts)
        seconds.append(time.perf_counter() - begin)
    return len(texts) / min(seconds)


def equal_texts(pieces: int) -> list[str]:
    """Return 32 texts of `pieces` tokens each, [CLS] and [SEP] included."""
    return [" ".join(["lease"] * (pieces - 2))] * BATCH


def passages(model: Embedder) -> list[str]:
    """Return the passages of a page of the docs, which differ in length: each section is cut for itself."""
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")
    return [
        section[span.start : span.end]
        for section in sections
        for span in cut_passages(section, model.token_spans, model.tokens_per_vector)
    ]


def query_milliseconds(model: Embedder) -> float:
    """Return the median time of one short query."""
    seconds = []
    for _ in range(QUERIES):
        begin = time.perf_counter()
        model.embed([QUERY])
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds) * 1000


def work(engine: str, *, only_start: bool) -> None:
    """Run in the measured process: print the moment of the first vector, then the other figures, as JSON."""
    model = load(engine)
    model.embed([QUERY])
    figures = {"first": time.time(), "start MB": megabytes()}
    if not only_start:
        figures["query ms"] = query_milliseconds(model)
        figures["128"] = texts_per_second(model, equal_texts(128))
        figures["256"] = texts_per_second(model, equal_texts(256))
        figures["passages"] = texts_per_second(model, passages(model))
        figures["work MB"] = megabytes()
    print(json.dumps(figures))


def in_fresh_process(engine: str, *options: str) -> dict[str, float]:
    """Start this file again and return what it prints, and the seconds to its first vector."""
    begin = time.time()
    program = [sys.executable, __file__, "--work", engine, *options]
    output = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return {**figures, "seconds": figures["first"] - begin}


def measure(engine: str) -> list[str]:
    """Return the cells of one row."""
    in_fresh_process(engine, "--only-start")  # fills the caches of the file system and of compiled Python
    starts = [in_fresh_process(engine, "--only-start")["seconds"] for _ in range(STARTS)]
    figures = in_fresh_process(engine)
    numbers = [figures[name] for name in ("query ms", "128", "256", "passages", "start MB", "work MB")]
    return [engine, f"{statistics.median(starts):.2f}", *(f"{number:.1f}" for number in numbers)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", choices=[REFERENCE], help="measure this engine too, in the same run")
    parser.add_argument("--work", choices=[ONNX, REFERENCE], help=argparse.SUPPRESS)
    parser.add_argument("--only-start", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.work, only_start=options.only_start)
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}\n")
    columns = "start to first vector, s | query p50, ms | texts/s at 128 | at 256 | of a page | MB at start | MB after"
    print(f"| engine | {columns} |")
    print("|---|---|---|---|---|---|---|---|")
    for engine in [ONNX, *([options.against] if options.against else [])]:
        print("| " + " | ".join(measure(engine)) + " |")
    return None


if __name__ == "__main__":
    main()

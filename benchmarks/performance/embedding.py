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

from vector_memory.embedding import Embedder
from vector_memory.embedding.weights import find_weights

ONNX, REFERENCE = "onnxruntime", "sentence-transformers"
STARTS = 5
QUERIES = 200
QUERY = "how do we retry failed payments in the nightly job"  # 10 word pieces
BATCH = 32
ROUNDS = 6


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


def texts_per_second(model: Embedder, pieces: int) -> float:
    """Return the best of six rounds over 32 texts of `pieces` tokens each, [CLS] and [SEP] included."""
    texts = [" ".join(["lease"] * (pieces - 2))] * BATCH
    seconds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        model.embed(texts)
        seconds.append(time.perf_counter() - begin)
    return BATCH / min(seconds)


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
        figures["128"] = texts_per_second(model, 128)
        figures["256"] = texts_per_second(model, 256)
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
    numbers = [figures[name] for name in ("query ms", "128", "256", "start MB", "work MB")]
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
    print("| engine | start to first vector, s | query p50, ms | texts/s at 128 | at 256 | MB at start | MB after |")
    print("|---|---|---|---|---|---|---|")
    for engine in [ONNX, *([options.against] if options.against else [])]:
        print("| " + " | ".join(measure(engine)) + " |")
    return None


if __name__ == "__main__":
    main()

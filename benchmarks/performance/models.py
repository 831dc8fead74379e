"""What embedding models cost, compared in one run: the time to load, of a question, and of passages.

uv run --extra multilingual benchmarks/performance/models.py [MODEL ...]

Without names: all-MiniLM-L6-v2 and multilingual-e5-small. The models take turns, and times are processor time, the
median of the rounds, so other programs on the machine hardly matter. A passage has 120 tokens of the model's own;
"passages/s on two cores" is what two threads would do if each had a core to itself.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import DEFAULT_MODEL, Settings

PAGE = Path(__file__).parents[2] / "docs" / "lab" / "performance.md"
QUESTION = "how do we retry failed payments in the nightly job"
TOKENS = 120
PASSAGES = 8
ROUNDS = 12
CORES = 2


def processor_seconds(action: Callable[[], object]) -> float:
    """Return the processor time of an action, over all its threads."""
    begin = time.process_time()
    action()
    return time.process_time() - begin


def passages(model: Embedder) -> list[str]:
    """Return passages of 120 tokens from a page of the docs."""
    text = PAGE.read_text(encoding="utf-8")
    spans = model.token_spans(text)
    starts = range(0, PASSAGES * TOKENS, TOKENS)
    return [text[spans[start].start : spans[start + TOKENS - 1].end] for start in starts]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    names = parser.parse_args().models or [DEFAULT_MODEL, "multilingual-e5-small"]
    loaded: dict[str, Embedder] = {}
    loading: dict[str, float] = {}
    for name in names:
        load_embedder(Settings(embedding_model=name))  # so that what is done only once is not counted
        begin = time.process_time()
        loaded[name] = load_embedder(Settings(embedding_model=name))
        loading[name] = time.process_time() - begin
    texts = {name: passages(model) for name, model in loaded.items()}
    asking: dict[str, list[float]] = {name: [] for name in names}
    storing: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        for name, model in loaded.items():
            asking[name].append(processor_seconds(lambda model=model: model.encode_query(QUESTION).vector))  # type: ignore[misc]
            storing[name].append(processor_seconds(lambda model=model, name=name: model.embed(texts[name])))  # type: ignore[misc]
    print(f"| model | load, s | a question, ms | a passage of {TOKENS} tokens, ms | passages/s on {CORES} cores |")
    print("|---|---|---|---|---|")
    for name in names:
        each = statistics.median(storing[name]) / PASSAGES
        question = 1000 * statistics.median(asking[name])
        print(f"| {name} | {loading[name]:.2f} | {question:.1f} | {1000 * each:.1f} | {CORES / each:.0f} |")


if __name__ == "__main__":
    main()

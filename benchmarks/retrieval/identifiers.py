"""Whether a search finds the one text with an identifier: 26 kinds, each asked for as people write it.

uv run benchmarks/retrieval/identifiers.py --folder FOLDER [--count N] [--cache DIR]

Paragraphs of the Markdown files under FOLDER become working memories. N identifiers of each kind (default 20), like
each other, are put into one of them each, behind a few words. Each is then asked for alone. Prints hit@1, MRR@10 and
the share of answers with a high confidence for each kind.
"""

import argparse
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cache import CachedEmbedder

from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.embedding import load_embedder
from vector_memory.errors import DuplicateMemoryError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

SEED = 20
SHORTEST, LONGEST = 200, 900
"""Characters of a paragraph."""

WORDS = re.findall(
    r"\w+",
    "account backup billing branch buffer cache chart client cluster config coupon cursor deploy device export filter "
    "folder gateway handler import index invoice ledger login mailer market member metric migration notifier parser "
    "payment policy printer queue quota refund render report router sampler schema session shipper socket tenant "
    "ticket upload vault worker",
)
HOSTS = ["docs.acme.io", "www.acme.io", "git.acme.io", "acme-cloud.net"]

Pair = tuple[str, str]
"""What a text has, and what is asked for."""

source = random.Random(SEED)  # noqa: S311 - not a secret


def word() -> str:
    """Return one of a few words, so that identifiers resemble each other."""
    return source.choice(WORDS)


def hexadecimal(length: int) -> str:
    """Return so many random hexadecimal digits."""
    return f"{source.getrandbits(4 * length):0{length}x}"


def number(low: int, high: int) -> int:
    """Return a random number."""
    return source.randint(low, high)


def version() -> str:
    """Return a version."""
    return f"{number(0, 9)}.{number(0, 40)}.{number(0, 20)}"


def url() -> str:
    """Return an address with a path."""
    return f"https://{source.choice(HOSTS)}/{word()}/{word()}/{number(100, 999)}-{word()}.html"


def whole(make: Callable[[], str]) -> Callable[[], Pair]:
    """Return a maker of identifiers that are asked for as they are."""

    def pair() -> Pair:
        made = make()
        return made, made

    return pair


def part(make: Callable[[], str], cut: Callable[[str], str]) -> Callable[[], Pair]:
    """Return a maker of identifiers of which only a part is asked for."""

    def pair() -> Pair:
        made = make()
        return made, cut(made)

    return pair


KINDS: dict[str, Callable[[], Pair]] = {
    "snake case": whole(lambda: f"{word()}_{word()}_{word()}"),
    "camel case": whole(lambda: f"{word()}{word().title()}{word().title()}"),
    "class": whole(lambda: f"{word().title()}{word().title()}{number(2, 99)}"),
    "module": whole(lambda: f"acme.{word()}.{word()}_{word()}"),
    "constant": whole(lambda: f"{word().upper()}_{word().upper()}_{number(2, 99)}"),
    "flag": whole(lambda: f"--{word()}-{word()}-{number(2, 99)}"),
    "path": whole(lambda: f"src/{word()}/{word()}/{word()}_{number(2, 99)}.py"),
    "file": part(lambda: f"src/{word()}/{word()}_{word()}{number(2, 99)}.rs", lambda made: made.rpartition("/")[2]),
    "end of a path": part(lambda: f"src/{word()}/{word()}{number(2, 99)}/mod.rs", lambda made: made[4:]),
    "issue": whole(lambda: f"#{number(100, 9_999)}"),
    "ticket": whole(lambda: f"{word()[:3].upper()}-{number(100, 9_999)}"),
    "error code": whole(lambda: f"E{number(1_000, 9_999)}"),
    "CVE": whole(lambda: f"CVE-20{number(10, 26)}-{number(1_000, 99_999)}"),
    "hash": whole(lambda: hexadecimal(40)),
    "hash, 7 characters": part(lambda: hexadecimal(40), lambda made: made[:7]),
    "hash, 8 characters": part(lambda: hexadecimal(40), lambda made: made[:8]),
    "hash, 12 characters": part(lambda: hexadecimal(64), lambda made: made[:12]),
    "UUID": whole(lambda: "-".join(map(hexadecimal, (8, 4, 4, 4, 12)))),
    "version with v": whole(lambda: f"v{version()}"),
    "version without its v": part(lambda: f"v{version()}", lambda made: made[1:]),
    "version with a v added": part(version, lambda made: f"v{made}"),
    "IP and port": whole(lambda: f"10.{number(0, 255)}.{number(0, 255)}.{number(1, 254)}:{number(1_024, 9_999)}"),
    "e-mail": whole(lambda: f"{word()}.{word()}{number(2, 99)}@acme.io"),
    "URL": whole(url),
    "URL without https": part(url, lambda made: made.partition("://")[2].removeprefix("www.")),
    "path of a URL": part(url, lambda made: "/" + made.split("/", 3)[3]),
}
PHRASES = ["Look at {}.", "It failed with {} again.", "Fixed in {}, see the log.", "We agreed on {} for now."]


def paragraphs(folder: Path) -> list[str]:
    """Return the paragraphs of the Markdown files under a folder that are neither short nor long."""
    texts = [part for file in sorted(folder.rglob("*.md")) for part in file.read_text(encoding="utf-8").split("\n\n")]
    return list(dict.fromkeys(text for text in texts if SHORTEST <= len(text) <= LONGEST and "```" not in text))


def fill(store: SessionMemoryStore, texts: list[str], planted: dict[int, str]) -> dict[int, int]:
    """Store the texts, some with an identifier; return which memory is which text."""
    memories = {}
    for place, text in enumerate(texts):
        told = f"{text}\n{source.choice(PHRASES).format(planted[place])}" if place in planted else text
        try:
            memories[store.store_memory(MemoryKind.WORKING_MEMORY, told, session_id="s").memory_id] = place
        except DuplicateMemoryError:
            continue
    return memories


def measured(
    store: SessionMemoryStore, memories: dict[int, int], asked: dict[int, str]
) -> Iterator[tuple[bool, float, bool]]:
    """Yield for each question whether the right text comes first, 1 / its rank up to 10, and if confidence is high."""
    scope = Scope(MemoryKind.WORKING_MEMORY, session_id="s")
    for place, query in asked.items():
        answer = store.search_chunks(query, scope, Page(limit=10))
        found = [memories[hit.memory_id] for hit in answer.results]
        rank = found.index(place) + 1 if place in found else 0
        yield rank == 1, 1 / rank if rank else 0.0, answer.confidence == "high"


def show(store: SessionMemoryStore, memories: dict[int, int], kinds: dict[str, dict[int, str]]) -> None:
    """Print a row for each kind and one for all."""
    print("| | hit@1 | MRR@10 | high |\n|---|---|---|---|")
    rows = {name: np.mean(list(measured(store, memories, asked)), axis=0) for name, asked in kinds.items()}
    for name, row in (*rows.items(), (f"all {len(rows)} kinds", np.mean(list(rows.values()), axis=0))):
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in row)} |")
    print(flush=True)


def main() -> None:
    """Plant, ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--count", type=int, default=20, metavar="N")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep vectors here for the next run")
    options = parser.parse_args()
    texts = paragraphs(options.folder)
    places = iter(source.sample(range(len(texts)), len(KINDS) * options.count))
    planted: dict[int, str] = {}
    kinds: dict[str, dict[int, str]] = {}
    for name, make in KINDS.items():
        pairs = dict(make() for _ in range(options.count)).items()
        asked = {next(places): pair for pair in pairs}
        planted |= {place: made for place, (made, _) in asked.items()}
        kinds[name] = {place: query for place, (_, query) in asked.items()}
    embedder = load_embedder(Settings())
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    settings = Settings(max_response_tokens=1_000_000, sqlite_synchronous="NORMAL")
    with TemporaryDirectory() as folder, SessionMemoryStore(f"{folder}/m.db", settings, embedder=embedder) as store:
        memories = fill(store, texts, planted)
        print(f"{len(memories):,} texts\n")
        show(store, memories, kinds)


if __name__ == "__main__":
    main()

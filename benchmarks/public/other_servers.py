"""Other memory servers on the same sets: stores the texts and asks the questions through the tools of each."""

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from judged import JudgedSet, Question
from scoring import DEPTH, score

sys.path.append(str(Path(__file__).parents[1] / "peers"))

import environments
from adapters import PEERS, Peer, VectorMemory
from peer_client import Answer, Server

LONG_LINE = 40
"""Characters of a line that is long enough to say which text it is from."""

NUMBER = re.compile(r"^\d+\. ")
"""What some servers put before a result."""

CHARACTERS_PER_TOKEN = 4.66
PYTHON = "/usr/bin/python3.11"
"""The interpreter of those that need no newer one, where it is there: with extensions of SQLite."""

Figures = dict[str, Any]


def measure(judged: JudgedSet, cache: Path, only: Sequence[str] | None = None) -> Figures:
    """Return the figures of each server, by its name. `cache`: where they are installed. `only`: the names of some."""
    chosen = [peer for peer in PEERS if not only or peer.name in only]
    models = environments.make_models(cache) if any(peer.models for peer in chosen) else {}
    figures: Figures = {}
    for peer in chosen:
        environment = environment_of(peer, cache)
        with TemporaryDirectory(prefix="servers-") as folder:
            found = asked(peer, environment, models, judged, Path(folder))
        made = {"version": environment.version(peer.package), "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"}
        figures[peer.name] = {**made, **found}
        print(f"{peer.name}: {figures[peer.name]}", file=sys.stderr)
    return figures


def added(known: Figures, run: Figures, measured: Figures) -> Figures:
    """Return a result with new figures of some servers. Its run is that of ours, whose code may have changed since."""
    kept = {} if VectorMemory.name in measured else known
    return {"run": kept.get("run", run), "servers": known.get("servers", {}) | measured}


def environment_of(peer: Peer, cache: Path) -> environments.Environment:
    """Return where a server is installed; ours runs in this environment."""
    if isinstance(peer, VectorMemory):
        return environments.Environment(Path(sys.prefix))
    python = peer.python or (PYTHON if Path(PYTHON).exists() else None)
    return environments.make(cache / "environments" / peer.package, python, peer.requirements, torch=peer.torch)


def asked(
    peer: Peer, environment: environments.Environment, models: dict[str, Path], judged: JudgedSet, folder: Path
) -> Figures:
    """Give each scope a memory of its own, ask its questions, and return the figures of all of them."""
    values, stores, searches, acknowledged, memory = [], list[float](), list[float](), 0, 0.0
    for number, (scope, names) in enumerate(judged.scopes.items()):
        home = folder / f"home {number}"
        environments.furnish(home, peer.models, models)
        settings = {"HOME": str(home), **environments.OFFLINE, **peer.settings}
        texts = {name: judged.documents[name] for name in names}
        with Server(peer.command(environment, home), settings, home) as server:
            server.tools()
            peer.search(server, "which service holds the lock", DEPTH)  # so that its model is loaded
            for place, text in enumerate(texts.values()):
                began = time.perf_counter()
                acknowledged += peer.store(server, text, place, home)
                stores.append(time.perf_counter() - began)
            server.settle()
            for question in (each for each in judged.questions if each.scope == scope):
                began = time.perf_counter()
                answer = peer.search(server, question.text, DEPTH)
                searches.append(time.perf_counter() - began)
                values.append(metrics(question, answer, texts))
            memory = max(memory, server.memory_mb())
    means = np.round(np.array(values, np.float64).mean(axis=0), 4).tolist()
    return {
        **dict(zip(("nDCG@10", "any@5", "any", "all", "precision"), means, strict=False)),
        "tokens": round(median(each[-1] for each in values)),
        "stored": acknowledged,
        "a store, ms": round(median(stores) * 1000, 1),
        "a search, ms": round(median(searches) * 1000, 1),
        "memory, MB": round(memory),
    }


def metrics(question: Question, answer: Answer, texts: Mapping[str, str]) -> tuple[float, ...]:
    """Return nDCG@10, any@5, any and all of the whole answer, the share of right texts in it, and its tokens."""
    shown = list(texts_in(answer.texts(), texts))
    right = [name in question.grades for name in shown]
    gain, _, _ = score(shown, question.grades)
    return (
        gain,
        float(any(right[:5])),
        float(any(right)),
        float(sum(right) == len(question.grades)),
        sum(right) / max(1, len(shown)),
        answer.size / CHARACTERS_PER_TOKEN,
    )


def tellable(judged: JudgedSet) -> int:
    """Count the questions with a right text that could be told from the others, were all of it shown."""
    return sum(
        any(name in texts_in([texts[name]], texts) for name in question.grades)
        for question in judged.questions
        for texts in [{name: judged.documents[name] for name in judged.scopes[question.scope]}]
    )


def texts_in(strings: Sequence[str], texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the ids of the texts of which an answer shows anything, in order: a long line, or all of a short text.

    What several texts have says nothing.
    """
    known = {name: plain(text) for name, text in texts.items()}
    yielded = set[str]()
    for line in (plain(line) for string in strings for line in string.splitlines()):
        said = NUMBER.sub("", line)
        start = said.rstrip(" .…")  # some cut a text, and say so by three dots
        if len(start) >= LONG_LINE:
            found = [name for name, text in known.items() if start in text]
        else:
            found = [name for name, text in known.items() if said == text]
        if len(found) == 1 and found[0] not in yielded:
            yielded.add(found[0])
            yield found[0]


def plain(text: str) -> str:
    """Return a text with single spaces."""
    return " ".join(text.split())

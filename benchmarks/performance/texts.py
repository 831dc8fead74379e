"""Texts to store and to ask: words that a session of agents would write, every one of them different."""

import re
from collections.abc import Sequence

import numpy as np

SUBJECTS = ("proxy", "ledger", "index", "queue", "snapshot", "token", "shard", "invoice", "cache", "scheduler")
VERBS = ("waits for", "replaces", "reads", "rejects", "outlives", "locks", "repeats", "forgets")
QUESTIONS = (
    "why did the nightly job fail",
    "which service holds the lock",
    "how long are snapshots kept",
    "who is allowed to restart the proxy",
    "what happens when a token expires",
)
SENTENCE = re.compile(r"(?<=[.:?] )[A-Z][^.|\[\]*<>#]{50,250}\.(?= )")
"""A sentence of a page without the marks of tables, links and lists."""
WORDS_OF_A_QUESTION = 12
SENTENCES_PER_SECTION = 22
SECTIONS_PER_REPORT = 15
"""A report of 5,100 of the model's tokens."""


def sentence(source: np.random.Generator) -> str:
    """Return a sentence of about 20 tokens."""
    first, second, third = source.choice(SUBJECTS, 3)
    return f"The {first} {source.choice(VERBS)} the {second} of the {third} after {source.integers(9999)} seconds."


def section(source: np.random.Generator, number: int) -> str:
    """Return a section of about one chunk."""
    return f"## Part {number}\n\n" + " ".join(sentence(source) for _ in range(SENTENCES_PER_SECTION)) + "\n"


def report(number: int, sections: int = SECTIONS_PER_REPORT) -> str:
    """Return a report that no other equals."""
    source = np.random.default_rng(number)
    return f"# Report {number}\n\n" + "\n".join(section(source, part) for part in range(sections))


def prompt(number: int) -> str:
    """Return a short prompt that no other equals."""
    return f"Find out what the {SUBJECTS[number % len(SUBJECTS)]} did on day {number}, and why."


def question(number: int) -> str:
    """Return a question that no other equals, so that no query's vector is remembered."""
    return f"{QUESTIONS[number % len(QUESTIONS)]}, case {number}"


def mixed(number: int, sentences: Sequence[str]) -> str:
    """Return a question that no other equals; every second one is the beginning of a stored sentence."""
    if number % 2 or not sentences:
        return question(number)
    words = sentences[number // 2 % len(sentences)].split()
    return f"{' '.join(words[:WORDS_OF_A_QUESTION])}, case {number}"

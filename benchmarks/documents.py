"""How real documents fare: whether anything is lost, whether headings are right, and whether last sentences are found.

    uv run benchmarks/documents.py FOLDER...

A folder holds Markdown files or repositories of them. A part of the path that names a language, such as `docs/de/`,
says which language a file is in.

For each language: gaps (text between chunks that is not white space), documents whose headings differ from those of
CommonMark as markdown-it-py reads the text without front matter, documents that are not reconstructed exactly, and
how often the last sentence of a document, asked word for word, finds it among the first three: by words and by both.
"""

import argparse
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from pathlib import Path

from markdown_it import MarkdownIt

from vector_memory.chunking import read_front_matter
from vector_memory.chunking.structure import Section, read_structure
from vector_memory.domain import Chunk, MemoryKind, Page, Scope, SearchMode
from vector_memory.domain.text import text_in
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.errors import ValidationError
from vector_memory.files.walking import walk
from vector_memory.indexing.indexer import Indexer
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

LANGUAGE = re.compile(
    "(am|ar|az|bn|bg|ca|cs|da|de|el|en|es|et|fa|fi|fr|gu|he|hi|hr|hu|hy|id|it|ja|ka|km|kn|ko|lo|lt|lv|ml|mn|mr|ms|my|"
    "nb|ne|nl|no|pa|pl|pt|ro|ru|si|sk|sl|sq|sr|sv|sw|ta|te|th|tr|uk|ur|uz|vi|zh)([-_](hans|hant|[a-z]{2}))?",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？।။።])|\n")  # noqa: RUF001  full stops of many scripts
LETTER = re.compile(r"[^\W\d_]")
LEAST_LETTERS = 25
MOST_CHARACTERS = 1_000
FOUND_WITHIN = 3
MODES = (SearchMode.KEYWORD, SearchMode.HYBRID)


def main() -> None:
    """Print one row for each language."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--asked", type=int, default=30, help="documents of each language whose last sentence is asked")
    parser.add_argument("--limit", type=int, default=300, help="documents of each language")
    chosen = parser.parse_args()
    documents = collected(chosen.folders, chosen.limit)
    print("| Language | Documents | Gaps | Headings differ | Not reconstructed | Found by words | By both |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for language in sorted(documents):
        counts = measured(documents[language], chosen.asked)
        asked = counts["asked"]
        row = [len(documents[language]), *(counts[name] for name in ("gaps", "headings", "reconstructions"))]
        found = [f"{counts[mode]} of {asked}" for mode in MODES]
        print("|", " | ".join(map(str, [language, *row, *found])), "|", flush=True)


def collected(folders: Sequence[Path], limit: int) -> dict[str, list[str]]:
    """Return the texts of each language, without repetitions; a random choice of at most `limit`."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in folders:
        root = folder.resolve()
        for entry in walk(root, lambda path, reason: print(f"Left out: {path}: {reason}")):
            if entry.path.suffix.lower() in {".md", ".mdx", ".markdown"}:
                try:
                    text = text_in((root / entry.path).read_bytes())
                except (ValidationError, OSError) as error:
                    print(f"Left out: {entry.path}: {error}")
                    continue
                if text.strip():
                    found[language_of((*root.parts[-3:], *entry.path.parts))].add(text)
    chance = random.Random(0)  # noqa: S311  the same documents each time
    return {language: chance.sample(sorted(texts), min(limit, len(texts))) for language, texts in found.items()}


def language_of(parts: Sequence[str]) -> str:
    """Return the language that a path names, or "-"."""
    found = (LANGUAGE.fullmatch(part) for part in parts)
    return next((match[1].lower() for match in found if match), "-")


def measured(texts: Sequence[str], asked: int) -> Counter[str]:
    """Store the texts of a language in a memory of their own, and count what is wrong and what is found."""
    counts: Counter[str] = Counter()
    reports = Scope(MemoryKind.REPORT, session_id="s")
    indexer = Indexer(EmbeddingModel(lambda: load_embedder(Settings())), Settings())
    with tempfile.TemporaryDirectory() as folder, SessionMemoryStore(Path(folder, "memory.db")) as store:
        stored = {}
        for text in texts:
            counts["headings"] += not agree(read_structure(text).sections, commonmark_headings(text))
            counts["gaps"] += sum(1 for _ in gaps(text, indexer.chunk(MemoryKind.REPORT, text)))
            with suppress(ValidationError):  # longer than a memory, or the same as another
                stored[store.store_memory(MemoryKind.REPORT, text, session_id="s").memory_id] = text
        counts["reconstructions"] = sum(reconstructed(store, number) != text for number, text in stored.items())
        for number, sentence in last_sentences(stored, asked):
            counts["asked"] += 1
            for mode in MODES:
                hits = store.search_chunks(sentence, reports, Page(limit=FOUND_WITHIN), mode=mode).results
                counts[mode] += number in [hit.memory_id for hit in hits]
    return counts


def commonmark_headings(text: str) -> list[tuple[int, str]]:
    """Return the level and the text of each heading with `#`, outside lists and quotes."""
    tokens = MarkdownIt("commonmark").parse(text[read_front_matter(text).end :].removeprefix("\ufeff"))
    return [
        (len(token.markup), inline.content)
        for token, inline in pairwise(tokens)
        if token.type == "heading_open" and token.level == 0 and token.markup.startswith("#")
    ]


def agree(sections: Sequence[Section], expected: Sequence[tuple[int, str]]) -> bool:
    """Whether the headings are the expected ones, apart from their ends: attributes are left out, long ones cut."""
    read = [
        (section.level, section.path[-1].lstrip("#").strip().removesuffix("…")) for section in sections if section.path
    ]
    return len(read) == len(expected) and all(
        level == wanted and text.startswith(start)
        for (level, start), (wanted, text) in zip(read, expected, strict=True)
    )


def gaps(text: str, chunks: Sequence[Chunk]) -> Iterator[str]:
    """Yield what is in no chunk, unless it is white space."""
    ends = [0, *accumulate((chunk.end for chunk in chunks), max)]
    starts = [*(chunk.start for chunk in chunks), len(text)]
    yield from filter(None, (text[end:start].strip() for end, start in zip(ends, starts, strict=True)))


def reconstructed(store: SessionMemoryStore, number: int) -> str:
    """Return a document as it is read, answer by answer."""
    parts, offset = [], 0
    while True:
        answer = store.reconstruct_document(number, offset).model_dump()
        parts.append(answer["content"])
        if answer.get("content_end") is None:
            return "".join(parts)
        offset = answer["content_end"]


def last_sentences(stored: dict[int, str], most: int) -> list[tuple[int, str]]:
    """Return the last sentence of each document that has one which no other document has."""
    found = []
    for number, text in stored.items():
        sentences = [part.strip() for part in SENTENCE_END.split(text) if len(LETTER.findall(part)) >= LEAST_LETTERS]
        if sentences and sum(sentences[-1] in other for other in stored.values()) == 1:
            found.append((number, sentences[-1][:MOST_CHARACTERS]))
    return found[:most]


if __name__ == "__main__":
    main()

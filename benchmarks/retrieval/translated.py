"""How well sections of one documentation are found in several languages, each asked for by its heading.

uv run [--extra multilingual] benchmarks/retrieval/translated.py FOLDER --cache DIR [--model NAME] [--languages ru zh]

FOLDER has a documentation in several languages, as `docs` of https://github.com/fastapi/fastapi (MIT): `en/docs`,
`ru/docs` and so on, with the same name in each language at the end of a heading, as in `## Первые шаги { #first-steps
}`. Only sections that every language has are counted, so all languages are asked for the same ones. A text is a section
without its heading. Prints nDCG@10 of each search mode for either half of the pages.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cache import CachedEmbedder
from judged import WHOLE, JudgedSet, Question
from rankings import SearchModeRanking, filled, opened
from scoring import score

from vector_memory.domain import SearchMode
from vector_memory.embedding import Embedder, load_embedder
from vector_memory.settings import DEFAULT_MODEL, Settings

HEADING = re.compile(r"^#{1,4} (?P<heading>.+?) \{ ?#(?P<anchor>[\w-]+) ?\}$", re.MULTILINE)
SHORTEST = 150
"""Characters of a section that is asked for."""

Sections = dict[str, tuple[str, str]]
"""By page and anchor: the heading and the text below it."""


def sections(folder: Path) -> Sections:
    """Return the sections of all pages under a folder."""
    found: Sections = {}
    for path in sorted(folder.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        headings = [*HEADING.finditer(text)]
        ends = [*(each.start() for each in headings[1:]), len(text)]
        for each, end in zip(headings, ends, strict=False):
            body = text[each.end() : end].strip()
            if len(body) >= SHORTEST:
                found[f"{path.relative_to(folder)}#{each['anchor']}"] = (each["heading"].strip("`*"), body)
    return found


def judged_sets(folder: Path, languages: list[str]) -> Iterator[JudgedSet]:
    """Yield for each language the sections that all have; those whose English heading is one word are not asked for."""
    found = {language: sections(folder / language / "docs") for language in languages}
    common = sorted(set.intersection(*(set(each) for each in found.values())))
    for language, each in found.items():
        asked = [name for name in common if len(found[languages[0]][name][0].split()) > 1]
        questions = [Question(each[name][0], WHOLE, {name: 1.0}, name, half(name)) for name in asked]
        yield JudgedSet(language, {name: each[name][1] for name in common}, {WHOLE: common}, questions)


def half(name: str) -> str:
    """Return to which half the page of a section belongs."""
    page = name.partition("#")[0]
    return "tuning" if sum(page.encode()) % 2 else "apart"


def measured(judged: JudgedSet, embedder: Embedder) -> dict[SearchMode, np.ndarray]:
    """Return nDCG@10 of each question in each mode."""
    values = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with opened(path, SearchMode.HYBRID, embedder) as store:
            documents = dict(filled(store, judged))
        for mode in SearchMode:
            with opened(path, mode, embedder) as store:
                ranking = SearchModeRanking(store, judged, documents)
                values[mode] = np.array([score(ranking.rank(each), each.grades)[0] for each in judged.questions])
    return values


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--cache", type=Path, metavar="DIR", required=True, help="keep vectors here for the next run")
    parser.add_argument("--languages", nargs="+", default=["ru", "zh"], metavar="CODE", help="besides English")
    parser.add_argument("--model", default=DEFAULT_MODEL, metavar="NAME")
    options = parser.parse_args()
    embedder = CachedEmbedder(load_embedder(Settings(embedding_model=options.model)), options.cache)
    print("| language | sections | asked | " + " | ".join(f"{mode}: tuning, apart" for mode in SearchMode) + " |")
    print("| --- " * (3 + len(SearchMode)) + "|")
    for judged in judged_sets(options.folder, ["en", *options.languages]):
        values = measured(judged, embedder)
        is_tuning = np.array([each.kind == "tuning" for each in judged.questions])
        cells = [f"{each[is_tuning].mean():.3f}, {each[~is_tuning].mean():.3f}" for each in values.values()]
        row = [judged.name, str(len(judged.documents)), str(len(judged.questions)), *cells]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()

"""Whether an answer is close, by the language of the question: in unknown ones, cosines say little."""

import json
import math
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tiny_models import Tiny
from vector_memory.domain import Page, Scope
from vector_memory.embedding.description import FOREIGN, UNKNOWN, UNREADABLE, Calibration, Description
from vector_memory.embedding.known import BGE_SMALL, E5_SMALL, MINILM
from vector_memory.embedding.onnx_engine import OnnxEngine
from vector_memory.store import SessionMemoryStore

LANGUAGES = json.loads((Path(__file__).parents[1] / "data" / "languages.json").read_text(encoding="utf-8"))
FACTS = LANGUAGES["facts"]
QUESTIONS = Path(__file__).parents[2] / "benchmarks" / "retrieval" / "questions"
PROJECTS = json.loads((QUESTIONS / "languages.json").read_text(encoding="utf-8"))
NOTES = Scope("report", session_id="notes")
REPORTS = Scope("report", session_id="reports")

Project = Callable[[str], SessionMemoryStore]


def whole(_word: str) -> int:
    return 1


@pytest.fixture(scope="module")
def project(engine: OnnxEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Return a memory, which no test changes, with the notes and reports of a language."""
    with ExitStack() as stores:
        folder = tmp_path_factory.mktemp("languages")
        yield cache(lambda language: stores.enter_context(filled(folder / f"{language}.db", engine, language)))


def filled(path: Path, engine: OnnxEngine, language: str) -> SessionMemoryStore:
    """Return a memory with twenty notes, and with four reports of five paragraphs, in one language."""
    store = SessionMemoryStore(path, embedder=engine)
    notes = [note for note, _ in PROJECTS[language]["notes"]]
    for note in notes:
        store.store_memory("report", note, session_id="notes")
    for start in range(0, len(notes), 5):
        store.store_memory("report", "\n\n".join(notes[start : start + 5]), session_id="reports")
    return store


@pytest.mark.parametrize("language", [code for code in PROJECTS if code not in ("en", "vi")])
def test_no_answer_to_an_off_topic_question_is_called_close_in_a_language_the_default_model_does_not_know(
    project: Project, language: str
) -> None:
    close = [
        question
        for question in PROJECTS[language]["off_topic"] + LANGUAGES["off_topic"].get(language, [])
        for scope in (NOTES, REPORTS)
        if project(language).search_chunks(question, scope, Page(limit=1)).confidence == "strong"
    ]
    assert close == []


@pytest.mark.parametrize(("language", "least"), [("en", 19), ("es", 12), ("de", 10), ("pl", 10)])
def test_right_answers_are_called_close_in_english_and_often_in_other_languages(
    project: Project, language: str, least: int
) -> None:
    answers = [
        (note, project(language).search_chunks(question, NOTES, Page(limit=1)))
        for note, question in PROJECTS[language]["notes"]
    ]
    assert all(answer.results for _, answer in answers)
    close = [answer.results[0].chunk_content == note for note, answer in answers if answer.confidence == "strong"]
    assert close.count(True) >= least
    assert all(close)


@pytest.mark.parametrize("language", ["de", "ru", "zh", "es"])
def test_off_topic_questions_among_questions_of_their_language_have_no_answer_that_is_close_by_meaning(
    engine: OnnxEngine, language: str
) -> None:
    """Where all texts look alike to the model."""
    vectors = engine.embed([fact["questions"][language] for fact in FACTS] + [fact["text"] for fact in FACTS])
    rules = {question: engine.calibration_for(question) for question in LANGUAGES["off_topic"][language]}
    nearest = {question: float((vectors @ engine.encode_query(question).vector).max()) for question in rules}
    assert [each for each, rule in rules.items() if rule.level(nearest[each], 0.0) == "strong"] == []


@pytest.mark.parametrize("language", ["ru", "zh"])
def test_no_search_calls_an_answer_close_that_is_off_topic_in_a_script_the_model_does_not_know(
    engine: OnnxEngine, language: str, tmp_path: Path
) -> None:
    """Neither by meaning nor by words, though the notes are in the same language: among two and among fifty."""
    with SessionMemoryStore(tmp_path / "memory.db", embedder=engine) as store:
        for fact in FACTS:
            for text in (fact["questions"][language], fact["text"]):
                store.store_memory("working_memory", text, session_id="s", agent_id="few" if fact is FACTS[0] else "a")
        close = [
            question
            for question in LANGUAGES["off_topic"][language]
            for agent in (None, "few")
            if store.search_memories(question, Scope("working_memory", agent_id=agent)).confidence == "strong"
        ]
        known = store.search_memories(FACTS[0]["questions"][language], Scope("working_memory")).confidence
    assert (close, known) == ([], "strong")


def test_nearly_all_english_questions_keep_the_models_own_figures(engine: OnnxEngine) -> None:
    questions = [fact["questions"]["en"] for fact in FACTS] + LANGUAGES["off_topic"]["en"]
    for name in ("docs", "rust_book"):
        questions += [text for text, _ in json.loads((QUESTIONS / f"{name}.json").read_text())["answerable"]]
    own = [engine.calibration_for(question) == MINILM.description.confidence for question in questions]
    assert sum(own) >= 0.97 * len(own)


def test_in_a_script_the_model_does_not_know_only_words_make_an_answer_close(engine: OnnxEngine) -> None:
    rule = engine.calibration_for("Столица Монголии")
    assert rule.level(1.0, 0.3) != "strong"
    assert rule.level(0.0, 0.4) == "strong"
    assert math.isinf(rule.strong)


def test_a_question_of_which_the_vocabulary_has_no_token_is_not_judged_by_meaning(tmp_path: Path) -> None:
    """Also if the description names no scripts: all such questions are equal to the model."""
    engine = OnnxEngine(Tiny(tmp_path).model())
    rules = [engine.calibration_for(question) for question in ("ᎦᏙ ᎤᏍᏗ", "ᎦᏙ queue", "the ᎦᏙ queue", "", "?", "the")]
    assert [rule is UNREADABLE for rule in rules] == [True, False, False, False, True, False]


def test_in_a_language_of_which_the_model_knows_few_words_words_and_meaning_must_agree(engine: OnnxEngine) -> None:
    rule = engine.calibration_for("Wie backe ich Sauerteigbrot?")
    assert rule == MINILM.description.foreign
    cases = ((0.75, 0.2), (0.3, 0.45), (0.7, 0.4), (0.0, 1.0))
    assert [rule.level(cosine, covered) == "strong" for cosine, covered in cases] == [False, False, True, True]


@pytest.mark.parametrize(
    "question",
    [
        "busy_timeout",
        "getUserById parseHTML",
        "ImportError 0x80070057",
        "1234",
        "",
        "OAuth2 JWT",
        "Kestrel",
        "Kestrel port",
        "why does store_report raise SQLITE_BUSY",
    ],
)
def test_identifiers_and_names_are_not_taken_for_another_language(engine: OnnxEngine, question: str) -> None:
    assert engine.calibration_for(question) == MINILM.description.confidence


def test_short_words_count_only_if_the_models_language_has_them() -> None:
    """Both `la` and `the` are one token of an English model."""
    figures = Calibration(strong=1.0)
    english = Description(name="mine", whole_words=0.62, short_words=("the", "is"), confidence=figures)
    any_short = replace(english, short_words=())
    questions = ("el rey de la luz", "The king is here", "el rey")
    assert [english.calibration_for(question, whole) == figures for question in questions] == [False, True, False]
    assert [any_short.calibration_for(question, whole) == figures for question in questions] == [True, True, True]


def test_without_figures_for_other_languages_only_words_make_an_answer_close() -> None:
    model = BGE_SMALL.description
    assert model.calibration_for("Wie backe ich Brot?", lambda _: 2) is FOREIGN
    assert model.calibration_for("how do I bake bread", whole) is UNKNOWN


def test_a_question_in_another_language_is_compared_half_by_meaning_if_its_letters_show_that() -> None:
    """Unknown words without such letters may be names and terms of English."""
    model = BGE_SMALL.description
    assert model.calibration_for("Co piątek robimy kopię", lambda _: 2) == replace(FOREIGN, weight=0.5)
    assert model.calibration_for("Xrl sizzled Ly49Q", lambda _: 2) is FOREIGN
    assert model.calibration_for("the menu of the café", whole) is UNKNOWN


def test_a_question_is_of_the_script_of_half_its_letters() -> None:
    model = BGE_SMALL.description
    assert model.calibration_for("what does 数据库 mean", whole) == replace(UNKNOWN, weight=0.8)
    assert model.calibration_for("index 数据库备份的问题", whole) is UNREADABLE


def test_a_question_is_read_however_its_letters_are_composed() -> None:
    question, model = "naïve résumé façade", BGE_SMALL.description
    for form in ("NFC", "NFD"):
        rule = model.calibration_for(unicodedata.normalize(form, question), lambda word: 1 if len(word) > 4 else 2)
        assert rule is UNKNOWN


def test_a_model_of_all_languages_has_one_rule_for_all() -> None:
    rules = {
        E5_SMALL.description.calibration_for(fact["questions"][code], lambda _: 9)
        for fact in FACTS
        for code in fact["questions"]
    }
    assert rules == {E5_SMALL.description.confidence}
    assert Description(name="mine").calibration_for("Столица Монголии", whole) is UNKNOWN

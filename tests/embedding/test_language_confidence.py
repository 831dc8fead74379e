"""Whether an answer is close, by the language of the question: in unknown ones, cosines say little."""

import json
import math
from pathlib import Path

import pytest

from tiny_models import Tiny
from vector_memory.domain import Scope
from vector_memory.embedding.calibration import UNKNOWN, UNREADABLE
from vector_memory.embedding.description import Description
from vector_memory.embedding.known import BGE_SMALL, E5_SMALL, MINILM
from vector_memory.embedding.onnx_engine import OnnxEngine
from vector_memory.store import SessionMemoryStore

LANGUAGES = json.loads((Path(__file__).parents[1] / "data" / "languages.json").read_text(encoding="utf-8"))
FACTS = LANGUAGES["facts"]


def whole(_word: str) -> int:
    return 1


@pytest.mark.parametrize("language", ["de", "ru", "zh", "es"])
def test_off_topic_questions_in_languages_the_default_model_does_not_know_hardly_ever_have_a_close_answer(
    engine: OnnxEngine, language: str
) -> None:
    """The notes are in the question's own language, where all texts look alike to the model."""
    notes = [fact["questions"][language] for fact in FACTS] + [fact["text"] for fact in FACTS]
    vectors = engine.embed(notes)
    close = [
        question
        for question in LANGUAGES["off_topic"][language]
        if engine.calibration_for(question).is_close(float((vectors @ engine.embed_query(question)).max()), 0.0, 50)
    ]
    assert len(close) <= (1 if language == "es" else 0)  # of 20


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
            if store.search_memories(question, Scope("working_memory", agent_id=agent)).confidence == "high"
        ]
        known = store.search_memories(FACTS[0]["questions"][language], Scope("working_memory")).confidence
    assert (close, known) == ([], "high")


def test_nearly_all_english_questions_keep_the_models_own_figures(engine: OnnxEngine) -> None:
    questions = [fact["questions"]["en"] for fact in FACTS] + LANGUAGES["off_topic"]["en"]
    own = [engine.calibration_for(question) == MINILM.description.confidence for question in questions]
    assert sum(own) >= 0.95 * len(own)


def test_in_a_script_the_model_does_not_know_only_words_make_an_answer_close(engine: OnnxEngine) -> None:
    rule = engine.calibration_for("Столица Монголии")
    assert not rule.is_close(1.0, 0.3, 1)
    assert rule.is_close(0.0, 0.4, 1)
    assert math.isinf(rule.by_meaning)


def test_a_question_of_which_the_vocabulary_has_no_token_is_not_judged_by_meaning(tmp_path: Path) -> None:
    """Also if the description names no scripts: all such questions are equal to the model."""
    engine = OnnxEngine(Tiny(tmp_path).model())
    rules = [engine.calibration_for(question) for question in ("ᎦᏙ ᎤᏍᏗ", "ᎦᏙ queue", "the ᎦᏙ queue", "", "?", "the")]
    assert [rule is UNREADABLE for rule in rules] == [True, False, False, False, True, False]


def test_in_a_language_of_which_the_model_knows_few_words_an_answer_must_be_nearer(engine: OnnxEngine) -> None:
    rule = engine.calibration_for("Wie backe ich Sauerteigbrot?")
    assert [rule.is_close(cosine, 0.0, 1) for cosine in (0.5, 0.6)] == [False, True]
    assert rule.is_close(0.0, 0.4, 1)


@pytest.mark.parametrize("question", ["busy_timeout", "ImportError 0x80070057", "1234", "", "OAuth2 JWT", "Kestrel"])
def test_identifiers_and_names_are_not_taken_for_another_language(engine: OnnxEngine, question: str) -> None:
    assert engine.calibration_for(question) == MINILM.description.confidence


def test_a_question_is_of_the_script_of_half_its_letters() -> None:
    model = BGE_SMALL.description
    assert model.calibration_for("what does 数据库 mean", whole) is UNKNOWN
    assert model.calibration_for("index 数据库备份的问题", whole) is not UNKNOWN


def test_a_model_of_all_languages_has_one_rule_for_all() -> None:
    rules = {
        E5_SMALL.description.calibration_for(fact["questions"][code], lambda _: 9)
        for fact in FACTS
        for code in fact["questions"]
    }
    assert rules == {E5_SMALL.description.confidence}
    assert Description(name="mine").calibration_for("Столица Монголии", whole) is UNKNOWN

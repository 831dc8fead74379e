"""The models that need no description file."""

from dataclasses import dataclass, replace
from pathlib import Path

from vector_memory.embedding.description import LATIN, Calibration, Description
from vector_memory.embedding.model_folder import BIAS_FILE, HUB_FILE, MODEL_FILE, TOKENIZER_FILE, Official

SHORT_WORDS = """
    a add all am an and any api app are as ask at be bug but by can cli cpu css csv did dir do end env few fix for get
    git had has he her him his how i id if in int is it its job key let log map max may me min my new no nor not now
    of off old on one or our out own per put row run see set she so sql str tag the to too two up url us use via was
    way we web who why yet you
"""
"""English words of up to three letters, and words of programming."""

ENGLISH = Description(
    name="a model for English with the vocabulary of BERT",
    languages=("en",),
    scripts=LATIN,
    whole_words=0.62,
    short_words=tuple(SHORT_WORDS.split()),
)

SEARCHING = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model and the origin of its files. `package`: contains them in a folder with the model's name.

    `repository`: on the Hugging Face hub; `revision`: that of the official files. `bias_file`: in this package; see
    `LanguageBias`.
    """

    description: Description
    repository: str
    about: str
    package: str = ""
    revision: str = ""
    official: tuple[Official, ...] = ()
    bias_file: Path | None = None


MINILM_TOKENIZER = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

MINILM = KnownModel(
    description=replace(
        ENGLISH,
        name="all-MiniLM-L6-v2",
        tokens=254,  # sentence-transformers' max_seq_length of 256; it was trained on 128
        late_interaction=True,
        confidence=Calibration(
            strong=0.54,
            related=0.3,
            late=0.72,
            same_subject=0.62,
            shared_words=0.35,
            change=0.1,
            answers=0.68,
            farthest=0.65,
        ),
        foreign=Calibration(strong=1.3, words=1.5),
    ),
    repository="sentence-transformers/all-MiniLM-L6-v2",
    about="the default: English, small and fast",
    package="vector_memory_model",
    revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
    official=(
        Official(
            {
                MODEL_FILE: "6502e11e74603437a37f07e4b408c64c0853864280d5c9fdf9b552ff8cb7f2e5",
                "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                TOKENIZER_FILE: MINILM_TOKENIZER,
            },
            vectors="all-MiniLM-L6-v2",
            precision="fp32",
        ),
        Official(
            {
                HUB_FILE: "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452",
                TOKENIZER_FILE: MINILM_TOKENIZER,
            },
            vectors="all-MiniLM-L6-v2",
            precision="fp32",
        ),
    ),
)

E5_SMALL = KnownModel(
    description=Description(
        name="multilingual-e5-small",
        query_prefix="query: ",
        passage_prefix="passage: ",
        languages=("about 100",),
        late_interaction=True,
        confidence=Calibration(strong=0.36, related=0.3, words=0.1, same_subject=0.56, shared_words=0.5, change=0.06),
    ),
    repository="intfloat/multilingual-e5-small",
    about="about 100 languages, and questions in another language than the answer",
    package="vector_memory_multilingual",
    official=(
        Official(
            {
                MODEL_FILE: "7076e83758b06e3f4502247ec801152700571515131feb3aa214f96cc27a5910",
                "model.onnx.data": "69802a78045610e4b8cef2097b1bdb980df0a77f798abeb54528284ca4b5a851",
                TOKENIZER_FILE: "43b1825a1cd49faf33f91d1ff4a1ba530ff88db9078e8ac28557a77e08830820",
                BIAS_FILE: "8c65b3b0b069c3af06e7fa0e5c811e052374c33a406d97ad1a6d65b3641bf3ea",
            },
            vectors="multilingual-e5-small@ef04491400bf",
            precision="q4",
        ),
    ),
    bias_file=Path(__file__).with_name("multilingual-e5-small.language-bias.npy"),
)

BGE_SMALL = KnownModel(
    description=replace(ENGLISH, name="bge-small-en-v1.5", pooling="cls", query_prefix=SEARCHING),
    repository="BAAI/bge-small-en-v1.5",
    about="English",
)

GTE_SMALL = KnownModel(description=replace(ENGLISH, name="gte-small"), repository="thenlper/gte-small", about="English")

ARCTIC_XS = KnownModel(
    description=replace(ENGLISH, name="snowflake-arctic-embed-xs", pooling="cls", query_prefix=SEARCHING),
    repository="Snowflake/snowflake-arctic-embed-xs",
    about="English, as small as the default",
)

ARCTIC_S = KnownModel(
    description=replace(ENGLISH, name="snowflake-arctic-embed-s", pooling="cls", query_prefix=SEARCHING),
    repository="Snowflake/snowflake-arctic-embed-s",
    about="English",
)

KNOWN = {each.description.name: each for each in (MINILM, E5_SMALL, BGE_SMALL, GTE_SMALL, ARCTIC_XS, ARCTIC_S)}


def by_name(name: str) -> KnownModel | None:
    """Return a known model by its name or its repository's; None if there is none."""
    return KNOWN.get(name) or next((each for each in KNOWN.values() if each.repository == name), None)

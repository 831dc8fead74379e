"""The models that need no description of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from vector_memory.embedding.description import LATIN, Calibration, Description
from vector_memory.embedding.model_folder import MODEL_FILE, TOKENIZER_FILE, Architecture

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
    """A model and where its files come from. `revision` and `sha256`: of the only files that are accepted, if any.

    `bias_file`: comes with this package; see `language_bias`.
    """

    description: Description
    repository: str
    about: str
    revision: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)
    size: Architecture | None = None
    bias_file: Path | None = None


MINILM = KnownModel(
    description=replace(
        ENGLISH,
        name="all-MiniLM-L6-v2",
        tokens=254,  # sentence-transformers' max_seq_length of 256; it was trained on 128
        late_interaction=True,
        confidence=Calibration(strong=0.54, related=0.3, late=0.72, same_subject=0.62, shared_words=0.35, change=0.1),
        foreign=Calibration(strong=1.3, words=1.5),
    ),
    repository="sentence-transformers/all-MiniLM-L6-v2",
    about="the default: English, small and fast",
    revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
    sha256={
        MODEL_FILE: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        TOKENIZER_FILE: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    size=Architecture(layers=6, heads=12, width=384, inner_width=1536, vocabulary=30_522, positions=512),
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
    bias_file=Path(__file__).with_name("multilingual-e5-small.language-bias.safetensors"),
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
    """Return a model by its name or that of its repository; None: it is not known."""
    return KNOWN.get(name) or next((each for each in KNOWN.values() if each.repository == name), None)

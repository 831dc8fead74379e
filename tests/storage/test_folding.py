"""Equal words have equal terms, however they are written, and other words have others."""

# ruff: noqa: RUF001 - other scripts have letters that resemble Latin ones

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.texts.terms import folded, is_mark, named_by, query_terms, terms, with_letters_for_marks

OTHER_WORDS = {
    "Hindi": ("काम", "कौम"),
    "Hindi, long and short": ("दिन", "दीन"),
    "Marathi": ("माती", "मोती"),
    "Tamil": ("கல்", "கால்"),
    "Bengali": ("কাল", "কুল"),
    "Telugu": ("పాలు", "పులి"),
    "Kannada": ("ಕಾಲು", "ಕೋಲು"),
    "Malayalam": ("കാല്", "കോല്"),
    "Punjabi": ("ਕਾਲ", "ਕੋਲ"),
    "Gujarati": ("કામ", "કોમ"),
    "Odia": ("କାଳ", "କୁଳ"),
    "Sinhala": ("කල", "කාල"),
    "Nepali": ("गाउँ", "गीत"),
    "Tibetan": ("ཁ་བ", "ཁྱི་བ"),
    "Thai": ("เกา", "เก่า"),
    "Khmer": ("កា", "កូ"),
    "Burmese": ("ကာ", "ကို"),
    "Dhivehi": ("ކަން", "ކުން"),
    "Japanese voicing": ("かき", "かぎ"),
    "Russian": ("мои", "мой"),
    "Ukrainian": ("іх", "їх"),
    "programming languages": ("C#", "C++"),
    "the first of them": ("C", "C++"),
    "emoji": ("🎉", "🔥"),
    "flags": ("🇩🇪", "🇪🇸"),
}


@pytest.mark.parametrize(("one", "other"), OTHER_WORDS.values(), ids=OTHER_WORDS)
def test_other_words_have_other_terms(one: str, other: str) -> None:
    assert set(terms(one)) != set(terms(other))
    assert all(terms(word) and query_terms(word) for word in (one, other))


SPACED = ("काम", "தமிழ்", "বাংলা", "తెలుగు", "ಕನ್ನಡ", "മലയാളം", "ਪੰਜਾਬੀ", "ગુજરાતી", "ଓଡ଼ିଆ", "සිංහල", "ދިވެހި", "नेपाली")


@pytest.mark.parametrize("word", SPACED)
def test_marks_belong_to_the_word(word: str) -> None:
    assert terms(word) == [folded(word)]
    assert terms(f"{word}-{word}") == [folded(word)] * 2 + [folded(word) * 2]


SAME_WORDS = {
    "Korean": ("한국어", unicodedata.normalize("NFD", "한국어")),
    "kana": ("データベース", unicodedata.normalize("NFD", "データベース")),
    "Russian": ("настройки", unicodedata.normalize("NFD", "настройки")),
    "Greek accents": ("ρύθμιση", "ΡΥΘΜΙΣΗ"),
    "final sigma": ("κόσμος", "ΚΟΣΜΟΣ"),
    "Vietnamese": ("Đặng", "dang"),
    "Arabic points": ("مُحَمَّد", "محمد"),
    "Arabic hamza": ("أحمد", "احمد"),
    "Arabic kashida": ("محـــمد", "محمد"),
    "Farsi": ("می‌کنم", "ميكنم"),
    "heh of Urdu": ("ہفتہ", "هفته"),
    "heh of Kurdish": ("ھەفتە", "ههفته"),
    "two Thai signs for one": ("เเก้ไข", "แก้ไข"),
    "two Lao signs for one": ("ເເກ້", "ແກ້"),
    "Hebrew points": ("שָׁלוֹם", "שלום"),
    "Syriac points": ("ܫܠܳܡܳܐ", "ܫܠܡܐ"),
    "ligatures": ("ofﬁce conﬁguration", "office configuration"),
    "full width": ("ＡＢＣ１２３", "abc123"),
    "half-width kana": ("ｻｰﾊﾞｰ", "サーバー"),
    "subscripts": ("H₂O", "H2O"),
    "mathematical letters": ("𝐒𝐞𝐫𝐯𝐞𝐫", "server"),
    "yo": ("ёлка", "елка"),
    "stress": ("за́мок", "замок"),
    "sharp s": ("Straße", "STRASSE"),
    "capital sharp s": ("STRAẞE", "strasse"),
    "French": ("œuvre cœur", "oeuvre coeur"),
    "Polish": ("Łódź", "lodz"),
    "Danish": ("Æble", "aeble"),
    "Icelandic": ("Þór", "Thor"),
    "Turkish": ("İstanbul Işık", "istanbul isik"),
    "zero-width space": ("pass\u200bword", "password"),
    "soft hyphen": ("Daten\u00adbank", "Datenbank"),
    "byte order mark": ("\ufeffserver", "server"),
    "direction marks": ("\u202aserver\u202c", "server"),
    "zero-width joiner": ("ශ්\u200dරී", "ශ්රී"),
    "hyphens": ("on\u2011prem", "on-prem"),
    "digits": ("१२३", "123"),
    "Arabic digits": ("٤٠٤", "404"),
    "Devanagari nukta": ("\u095b", "\u091c\u093c"),
    "variation selectors": ("❤\ufe0f", "❤"),
    "skin tones": ("👍🏽", "👍"),
    "compatibility ideographs": ("\uf9d1", "六"),
    "squared words": ("25㎏", "25 kg"),
}


@pytest.mark.parametrize(("one", "other"), SAME_WORDS.values(), ids=SAME_WORDS)
def test_equal_words_have_equal_terms(one: str, other: str) -> None:
    assert set(query_terms(one)) <= set(terms(other))
    assert set(query_terms(other)) <= set(terms(one))
    assert query_terms(one)


FOUND = {
    "Müller": ("Mueller", "Muller", "MÜLLER"),
    "Mueller": ("Müller",),
    "Öl": ("Oel",),
    "Mu\u0308ller": ("Mueller",),
    "0x80070005": ("80070005", "0X80070005"),
    "80070005": ("0x80070005",),
    "ABC-1234": ("abc1234", "abc-1234"),
    "abc1234": ("ABC-1234",),
    "on-prem": ("onprem",),
    "onprem": ("on-prem",),
    "C++17": ("c++",),
    "R&D": ("r&d",),
    ".NET": ("net", ".net"),
    "Windows™": ("windows",),
    "№5": ("5",),
    "①Install": ("install",),
    "released 🎉🚀": ("🚀",),
    "1️⃣ first": ("1",),
}


@pytest.mark.parametrize(("text", "query"), [(text, query) for text, queries in FOUND.items() for query in queries])
def test_what_is_also_written_otherwise_is_found(text: str, query: str) -> None:
    assert set(query_terms(query)) & set(terms(f"Then {text} was there."))


def test_a_number_counts_once_with_and_without_its_prefix() -> None:
    assert len({named_by(term) for term in query_terms("0x80070005")}) == 1


def test_a_date_is_not_one_word() -> None:
    assert "20261005" not in terms("on 2026-10-05")


WRITTEN = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(WRITTEN)
def test_terms_do_not_depend_on_how_letters_are_composed(text: str) -> None:
    assert sorted(terms(unicodedata.normalize("NFD", text))) == sorted(terms(unicodedata.normalize("NFC", text)))
    assert set(query_terms(unicodedata.normalize("NFD", text))) == set(query_terms(unicodedata.normalize("NFC", text)))


@given(WRITTEN)
def test_a_folded_text_is_folded_already(text: str) -> None:
    assert folded(folded(text)) == folded(text)


@given(WRITTEN)
def test_a_text_with_letters_for_marks_has_its_length_and_no_marks(text: str) -> None:
    other = with_letters_for_marks(text)
    assert len(other) == len(text)
    assert not any(map(is_mark, other))


@given(st.text(st.characters(max_codepoint=127)))
def test_an_ascii_text_is_folded_already(text: str) -> None:
    assert folded(text) is text


def test_a_word_counts_once_with_both_spellings_of_its_umlaut() -> None:
    assert len({named_by(term) for term in query_terms("Müller")}) == 1

"""Texts in scripts that the default model cannot read rank as by their words, on every way to search."""

# ruff: noqa: RUF001 - other scripts have letters that resemble Latin ones

from collections.abc import Iterator
from pathlib import Path

import pytest

from vector_memory.domain import Page, Scope
from vector_memory.files.memory import FileMemory
from vector_memory.search.explain import ExplainRequest
from vector_memory.search.question import UNREAD
from vector_memory.store import SessionMemoryStore
from waiting import PATIENCE

SENTENCES = {
    "Thai": ("เปลี่ยนรหัสผ่านไวไฟทุกเดือน", "ประชุมเก้าโมง", "เครื่องพิมพ์อยู่ชั้นสอง", "ปิดไฟก่อนกลับ",
        "กุญแจอยู่ที่ยาม"),
    "Khmer": ("ប្តូរពាក្យសម្ងាត់រៀងរាល់ខែ", "ប្រជុំម៉ោងប្រាំបួន", "ម៉ាស៊ីនបោះពុម្ពនៅជាន់ទីពីរ", "បិទភ្លើង",
        "សោនៅទីនេះ"),
    "Lao": ("ປ່ຽນລະຫັດຜ່ານທຸກເດືອນ", "ປະຊຸມເກົ້າໂມງ", "ເຄື່ອງພິມຢູ່ຊັ້ນສອງ", "ປິດໄຟ", "ກະແຈຢູ່ນີ້"),
    "Burmese": ("စကားဝှက်ကိုလစဉ်ပြောင်းပါ", "အစည်းအဝေးကိုးနာရီ", "ပရင်တာဒုတိယထပ်", "မီးပိတ်ပါ", "သော့ဒီမှာ"),
    "Korean": ("매달 와이파이 비밀번호를 바꾼다", "회의는 아홉 시", "프린터는 이 층", "불을 끄세요", "열쇠는 여기"),
    "Chinese": ("每个月更换无线网络密码", "九点开会", "打印机在二楼", "离开时关灯", "钥匙在门卫那里"),
    "Japanese": ("無線のパスワードを毎月変更する", "会議は九時から", "プリンタは二階", "電気を消す", "鍵は受付"),
    "Amharic": ("የይለፍ ቃሉን በየወሩ ቀይር", "ስብሰባ በሦስት ሰዓት", "ማተሚያው ሁለተኛ ፎቅ", "መብራት አጥፋ", "ቁልፉ እዚህ ነው"),
    "Georgian": ("პაროლი ყოველთვე შეცვალეთ", "შეხვედრა ცხრაზე", "პრინტერი მეორე სართულზე", "ჩააქრეთ შუქი",
        "გასაღები აქ"),
    "Sinhala": ("මුරපදය සෑම මසකම වෙනස් කරන්න", "රැස්වීම නවයට", "මුද්‍රකය දෙවන මහලේ", "ලයිට් නිවන්න", "යතුර මෙහි"),
    "Gujarati": ("દર મહિને પાસવર્ડ બદલો", "બેઠક નવ વાગ્યે", "પ્રિન્ટર બીજા માળે", "લાઇટ બંધ કરો", "ચાવી અહીં છે"),
    "Hindi": ("हर महीने पासवर्ड बदलें", "बैठक नौ बजे", "प्रिंटर दूसरी मंजिल पर", "बत्ती बंद करें", "चाबी यहाँ है"),
    "Greek": ("Αλλάξτε τον κωδικό κάθε μήνα", "Σύσκεψη στις εννιά", "Ο εκτυπωτής στον δεύτερο", "Σβήστε το φως",
        "Κλειδί εδώ"),
    "Arabic": ("غيّر كلمة المرور كل شهر", "الاجتماع في التاسعة", "الطابعة في الطابق الثاني", "أطفئ النور",
        "المفتاح هنا"),
    "Hebrew": ("החליפו את הסיסמה כל חודש", "הישיבה בתשע", "המדפסת בקומה השנייה", "כבו את האור", "המפתח כאן"),
    "Russian": ("Меняйте пароль каждый месяц", "Совещание в девять", "Принтер на втором этаже", "Выключайте свет",
        "Ключ здесь"),
    "Armenian": ("Փոխեք գաղտնաբառը ամեն ամիս", "Ժողովը իննին", "Տպիչը երկրորդ հարկում", "Անջատեք լույսը",
        "Բանալին այստեղ"),
    "Tamil": ("ஒவ்வொரு மாதமும் கடவுச்சொல்லை மாற்று", "கூட்டம் ஒன்பது மணி", "அச்சுப்பொறி மாடியில்", "விளக்கை அணை",
        "சாவி இங்கே"),
}  # fmt: skip
"""A sentence of a long note, and the short notes beside it."""


def long_note(sentence: str, others: tuple[str, ...]) -> str:
    """Return a note of which the sentence is a small part."""
    filler = ". ".join(others * 2)
    return f"{filler}. {sentence}. {filler}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(tmp_path / "memory.db") as opened:
        yield opened


def fill(store: SessionMemoryStore, kind: str) -> None:
    """Store the notes of each language in a session of its own."""
    for language, (sentence, *others) in SENTENCES.items():
        for text in (*others, long_note(sentence, tuple(others))):
            store.store_memory(kind, text, session_id=language)


def test_a_sentence_finds_its_chunk_and_section_first(store: SessionMemoryStore) -> None:
    fill(store, "report")
    for language, (sentence, *_) in SENTENCES.items():
        scope = Scope("report", session_id=language)
        chunks, sections = store.search_chunks(sentence, scope), store.search_sections(sentence, scope)
        assert sentence in chunks.results[0].chunk_content, language
        assert sentence in sections.results[0].section_content, language
        assert sentence in store.search_documents(sentence, scope).results[0].content, language
        assert chunks.results[0].similarity is None
        assert [answer.message.count(UNREAD) for answer in (chunks, sections)] == [1, 1]


def test_a_sentence_finds_its_memory_first_also_among_what_is_new(store: SessionMemoryStore) -> None:
    fill(store, "working_memory")
    for language, (sentence, *_) in SENTENCES.items():
        found = store.search_memories(sentence, Scope("working_memory", session_id=language))
        assert sentence in found.results[0].content, language
        new = store.search_changes(Scope(session_id=language), query=sentence)
        assert new.results[0].id == found.results[0].id, language
        assert new.message.count(UNREAD) == 1


def test_a_sentence_finds_its_tagged_note_first(store: SessionMemoryStore) -> None:
    for sentence, *others in SENTENCES.values():
        for text in (*others, long_note(sentence, tuple(others))):
            store.tagged.store(text)
    for language, (sentence, *_) in SENTENCES.items():
        found = store.tagged.search(sentence)
        assert sentence in found.results[0].content, language
        assert found.message.count(UNREAD) == 1


def test_a_sentence_finds_its_file_first(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    for language, (sentence, *others) in SENTENCES.items():
        for number, text in enumerate((*others, long_note(sentence, tuple(others)))):
            (folder / f"{language}-{number}.md").write_text(text, encoding="utf-8")
    with FileMemory(folder, index_file=tmp_path / "index.sqlite") as files:
        files.start_background_work()
        assert files.wait_for_words(PATIENCE)
        for language, (sentence, *_) in SENTENCES.items():
            found = files.search(sentence)
            assert sentence in found.results[0].text, language
            assert found.message.count(UNREAD) == 1


def test_no_answer_matches_strongly_that_has_few_of_the_words(store: SessionMemoryStore) -> None:
    """Any two texts in such a script are near each other for the model."""
    fill(store, "working_memory")
    for language, (_, *others) in SENTENCES.items():
        scope = Scope("working_memory", session_id=language)
        for found in (store.search_memories("ᎦᏙ ᎤᏍᏗ", scope), store.search_memories(SENTENCES["Thai"][4], scope)):
            assert found.confidence != "strong" or language == "Thai"
        assert store.search_memories(others[0], scope).confidence == "strong"


def test_the_words_of_a_question_that_is_read_in_part_weigh_more(store: SessionMemoryStore) -> None:
    question = "configure replication 数据库备份"
    store.store_memory("working_memory", question, session_id="s")
    trace = store.explaining.explain(question, Scope("working_memory", session_id="s"), ExplainRequest(Page()))
    assert "the model cannot read all of the question" in str(trace)


LATIN = {
    "Turkish": "Her cuma gecesi veritabanını yedekleyin",
    "Vietnamese": "Sao lưu cơ sở dữ liệu vào mỗi tối thứ sáu",
    "Polish": "Co piątek w nocy robimy kopię bazy danych",
    "Hungarian": "Minden péntek éjjel mentsük az adatbázist",
    "French": "Chaque vendredi soir nous sauvegardons la base de données",
    "German": "Jeden Freitag wird die Datenbank für uns gesichert",
}
ENGLISH = (
    "We decided to back up the database every Friday night.",
    "Never open port 8080 on the production server.",
    "The team meeting moved to next Wednesday.",
    "The deploy key is in the safe on the second floor.",
    "The new server was installed in Leeds.",
    "The cache is cleared by the nightly job.",
    "Retries use exponential backoff.",
    "Invoices are sent on the first of the month.",
)


def test_a_sentence_in_another_language_finds_its_note_among_english_ones_first(store: SessionMemoryStore) -> None:
    for language, sentence in LATIN.items():
        for text in (*ENGLISH, f"{' '.join(ENGLISH[:4])} {sentence}. {' '.join(ENGLISH[4:])}"):
            store.store_memory("report", text, session_id=language)
    for language, sentence in LATIN.items():
        for question in (sentence, f"server: {sentence}"):
            best = store.search_documents(question, Scope("report", session_id=language)).results[0]
            assert sentence in best.content, language

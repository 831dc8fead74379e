"""The page in a real browser: Debian's Chromium, without a window, driven by Playwright."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from browsing import AXE, PHONE, WIDE, browser, needs_axe, needs_chromium, playwright, violations
from engines import execute
from inside import storage_of
from other_process import OtherProcess
from over_http.conftest import serving as team_serving
from report_page import HOSTILE
from ui.conftest import Ui, serving
from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.domain.callers import Permission
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.extras.teams.registry import Registry
from vector_memory.extras.window import page as building
from vector_memory.files import FileMemory
from vector_memory.settings import HttpOptions, Settings
from vector_memory.storage.records import Links
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor.report import Report, fine, fixable
from waiting import eventually

__all__ = ["browser"]

pytestmark = needs_chromium

MANY = 260
PAGES = (
    *("#/", "#/memories", "#/memories?session=s&charts=shown", "#/memory/1", "#/review"),
    *("#/search?q=writer", "#/search?q=writer&view=why", "#/search?q=writer&view=agent", "#/feed", "#/space"),
)

REFUSED = "Failed to load resource: the server responded with a status of 400"
"""What the browser itself notes of a change that the memory refuses."""

TITLE, TASK = "</title><script>window.ran=10</script>", '"><script>window.ran=9</script>'

ATTACK = """async base => {
  const load = (name, attributes) => new Promise(done => {
    const made = Object.assign(document.createElement(name), attributes);
    made.onload = () => done(made.contentDocument ? "reached" : name === "iframe" ? "refused" : "reached");
    made.onerror = () => done("refused");
    document.body.append(made);
  });
  const ask = (path, options) => fetch(base + path, { credentials: "include", ...options })
    .then(answer => answer.type === "opaque" ? "refused" : "reached", () => "refused");
  const written = { method: "PUT", headers: { "x-vector-memory": "page" } };
  return Promise.all([
    ask("api/home"), ask("api/memories/1/deletion", written), ask("api/memories/1/deletion", { method: "PUT" }),
    ask("api/import", { method: "POST", mode: "no-cors", body: JSON.stringify({ lines: "{}" }) }),
    ask("api/export", { mode: "no-cors" }), ask("", { mode: "no-cors" }),
    load("script", { src: base }), load("script", { src: base + "api/home" }),
    load("img", { src: base + "api/backup" }), load("iframe", { src: base }),
  ]);
}"""
"""What a foreign page may try; where it cannot see an answer, the answers themselves are looked at."""

LABELS = "marks => marks.map(mark => mark.getAttribute('aria-label'))"

Shown = Any


@pytest.fixture
def filled(store: SessionMemoryStore) -> SessionMemoryStore:
    """A report that is hostile in every field, with an observation that may be out of date, and two notes."""
    store.store_memory(
        "report",
        f"# Locks\n\nThe writer waits.\n\n{HOSTILE}",
        agent_id="<img src=x onerror=window.ran=8>",
        session_id="s",
        title=TITLE,
        task_code=TASK,
        tags=["<i>"],
        metadata={"__proto__": "<b>", "note": "</script>"},
    )
    store.store_memory("report_observation", "It waits a second.", agent_id="bob", session_id="s", parent_report_id=1)
    store.store_memory("working_memory", "The writer is slow.", agent_id="bob", session_id="s", session_iter=2)
    store.store_memory("knowledge_base", "The writer never sleeps.", agent_id="bob", title="Rule", category="rules")
    with storage_of(store).write() as writer:
        writer.link(3, Links({2: 0.9}))
    return store


@pytest.fixture
def opening(browser: Any) -> Iterator[Callable[..., Shown]]:
    """Opens a page; whatever a test does, nothing is asked of elsewhere, said on the console, or run."""
    contexts, said, asked, hosts = [], list[str](), list[str](), set[str]()

    def opened(ui: Ui, **options: Any) -> Shown:
        context = browser.new_context(**{"viewport": WIDE, "color_scheme": "light", "bypass_csp": False, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda message: None if message.text.startswith(REFUSED) else said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        hosts.add(ui.base)
        page.goto(ui.link)
        page.wait_for_selector("main h1")
        return page

    yield opened
    for context in contexts:
        for page in context.pages:
            assert page.evaluate("window.ran") is None
        context.close()
    assert said == []
    assert all(any(url.startswith(host) for host in hosts) for url in asked), asked


@pytest.fixture
def shown(filled: SessionMemoryStore, ui: Ui, opening: Callable[..., Shown], request: pytest.FixtureRequest) -> Shown:
    del filled
    return opening(ui, **getattr(request, "param", {}))


def visit(shown: Shown, address: str) -> None:
    """Go to a page, and wait until it is there."""
    shown.evaluate("address => { location.hash = address }", address)
    ready = {
        "view=agent": "pre.call",
        "search": ".results, table",
        "/memory/": "article .text",
        "/review": ".conflict, .nothing",
        "/space": ".sizes",
    }
    shown.wait_for_selector(next((there for part, there in ready.items() if part in address), ".entry, .figures"))


def store_notes(store: SessionMemoryStore, count: int) -> None:
    for number in range(count):
        store.store_memory("working_memory", f"Note {number}.", agent_id="a", session_id="s")


def names(shown: Shown) -> list[str]:
    return [text.strip() for text in shown.locator(".entry .name").all_inner_texts()]


def test_an_empty_memory_says_what_to_do_next(ui: Ui, opening: Callable[..., Shown]) -> None:
    shown = opening(ui)
    assert shown.inner_text("h1") == "Nothing is stored yet"
    assert "vector-memory install claude" in shown.inner_text("main")
    shown.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shown.click("[aria-label='Copy vector-memory import-sessions']")
    playwright.expect(shown.locator(".command", has_text="import-sessions").locator("button")).to_have_text("Copied")
    assert shown.evaluate("navigator.clipboard.readText()") == "vector-memory import-sessions"


def test_home_says_what_happened_lately(shown: Shown) -> None:
    assert shown.locator(".figures dd").first.inner_text() == "4"
    assert "1 active now" in shown.inner_text(".figures")
    assert "4 memories stored by 2 agents" in shown.inner_text("main")
    assert shown.locator(".session").inner_text().startswith("s")


def test_home_says_what_recaps_and_recalls_cost_each_client(
    filled: SessionMemoryStore, ui: Ui, opening: Callable[..., Shown]
) -> None:
    filled.count_told("one", "gemini-cli", "x" * 3_000, [2], is_recap=True)
    eventually(lambda: filled.get_memory_stats().recalls)
    row = opening(ui).locator("tr", has_text="gemini-cli")
    playwright.expect(row.locator("td")).to_have_text(["1", "1,000", "1", "0", "0"])


def test_home_says_what_the_doctor_found_and_what_to_do(
    filled: SessionMemoryStore, opening: Callable[..., Shown]
) -> None:
    found = [fine("disk", "9 GB free."), fixable("permissions", "<b>Others</b> read it."), fine("log", "It is empty.")]
    with serving(filled, examine=lambda: Report("memory.db", {"place": found})) as ui:
        shown = opening(ui)
        shown.click(".figures >> text=health finding")
        assert "permissions: <b>Others</b> read it." in shown.inner_text("section:focus")
        assert shown.inner_text("section:focus code") == "vector-memory doctor --fix"
        found.pop(1)
        shown.click("text=Check again")
        playwright.expect(shown.locator(".figures")).to_contain_text("Healthy")
        assert "All 2 checks of vector-memory doctor passed." in shown.inner_text("main")
        shown.close()


def test_what_another_process_stores_appears_at_once_and_nothing_on_the_screen_moves(
    store: SessionMemoryStore, ui: Ui, opening: Callable[..., Shown], tmp_path: Path
) -> None:
    store_notes(store, MANY)
    shown = opening(ui)
    visit(shown, "#/memories")
    assert names(shown)[0] == f"Note {MANY - 1}."
    other = OtherProcess(tmp_path / "memory.db")
    other.call("store_memory", "working_memory", "A later note.", agent_id="a", session_id="s")
    shown.wait_for_selector("text=A later note.")
    shown.evaluate("scrollTo(0, 9000)")
    row = shown.locator(".row", has_text="Note 152.")
    row.wait_for()
    before = row.bounding_box()["y"]
    other.call("store_memory", "working_memory", "The last note.", agent_id="a", session_id="s")
    playwright.expect(shown.locator(".outcome")).to_have_text(f"{MANY + 2} memories")
    assert abs(row.bounding_box()["y"] - before) < 2
    other.close()


def test_home_follows_agents_that_store_faster_than_it_is_answered(
    filled: SessionMemoryStore, ui: Ui, opening: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = SessionMemoryStore.get_memory_stats

    def slowly(store: SessionMemoryStore) -> Any:
        time.sleep(1.2)
        return counted(store)

    monkeypatch.setattr(SessionMemoryStore, "get_memory_stats", slowly)
    shown = opening(ui)
    first = shown.locator(".figures dd").first
    first.wait_for()
    for number in range(30):
        if int(first.inner_text()) > 4:
            break
        filled.store_memory("working_memory", f"Note {number}.", agent_id="a", session_id="s")
        shown.wait_for_timeout(300)
    assert number < 29


def test_of_a_long_list_only_what_is_visible_is_drawn(
    store: SessionMemoryStore, ui: Ui, opening: Callable[..., Shown]
) -> None:
    store_notes(store, MANY)
    shown = opening(ui)
    visit(shown, "#/memories")
    shown.evaluate("scrollTo(0, document.body.scrollHeight)")
    shown.wait_for_selector("text=Note 0.")
    assert shown.locator(".row").count() < 40


@pytest.mark.parametrize(
    ("control", "value", "found"),
    [("kind", "working_memory", 1), ("agent", "bob", 3), ("session", "s", 3), ("text", "WRITER", 3), ("text", "%", 0)],
)
def test_a_filter_narrows_the_list_and_is_in_the_address(shown: Shown, control: str, value: str, found: int) -> None:
    visit(shown, "#/memories")
    if control == "kind":
        shown.select_option("#kind", value)
    else:
        shown.fill(f"#{control}", value)
        shown.press(f"#{control}", "Enter")
    playwright.expect(shown.locator(".outcome")).to_contain_text(f"{found} memor")
    playwright.expect(shown.locator(".entry")).to_have_count(found)
    shown.reload()
    playwright.expect(shown.locator(".entry")).to_have_count(found)
    shown.click("text=Show all")
    playwright.expect(shown.locator(".entry")).to_have_count(4)


def test_cells_and_items_stay_apart_in_a_list_and_a_cut_name_leaves_no_comma(
    shown: Shown, filled: SessionMemoryStore
) -> None:
    long = "Ports of staging that the nightly import and the shop need are the ones of the database"
    for text in (
        "| name | port |\n| --- | --- |\n| shop | 5433 |\n\n- first\n- second",
        f"- {long}, the queue and the cache",
    ):
        filled.store_memory("working_memory", text, session_id="s", agent_id="bob")
    visit(shown, "#/memories")
    rows = shown.locator(".entry")
    playwright.expect(rows).to_have_count(6)
    assert [rows.nth(at).locator(".name").inner_text() for at in (0, 1)] == [f"{long}…", "name · port"]
    excerpts = [rows.nth(at).locator(".excerpt").inner_text() for at in (0, 1)]
    assert excerpts == ["the queue and the cache", "shop · 5433 · first · second"]


def test_the_palette_goes_to_memories_sessions_agents_and_commands(shown: Shown) -> None:
    for typed, keys, ready in (
        ("never sleeps", ["ArrowDown"], "article h1 >> text=Rule"),
        ("3", [], "article h1 >> text=The writer is slow."),
        ("bob", [], ".outcome >> text=3 memories match"),
        ("timeline", [], "#timeline .mark"),
        ("what may be deleted", [], "h1 >> text=Space"),
    ):
        shown.keyboard.press("Control+k")
        shown.locator(".palette input").type(typed)
        shown.wait_for_selector("#offers [role=option]")
        playwright.expect(shown.locator(".palette [role=status]")).to_have_text("")
        for key in [*keys, "Enter"]:
            shown.keyboard.press(key)
        shown.wait_for_selector(ready)
        assert shown.locator("dialog[open]").count() == 0


def test_the_palette_is_open_before_the_next_key_can_come(shown: Shown) -> None:
    pressing = """async () => {
      dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true }));
      for (let at = 0; at < 9; at += 1) await null;
      return document.activeElement.matches(".palette[open] input");
    }"""
    assert shown.evaluate(pressing)


def test_a_period_narrows_the_list_by_the_clock_of_the_reader(shown: Shown, filled: SessionMemoryStore) -> None:
    execute(filled, "update session_memories set created_at = '2020-05-01T12:00:00.000000+00:00' where id = 2")
    visit(shown, "#/memories")
    shown.select_option("#period", "24h")
    playwright.expect(shown.locator(".entry")).to_have_count(3)
    assert "since=24h" in shown.evaluate("location.hash")
    shown.select_option("#period", "dates")
    for field, day in (("since", "2020-05-01"), ("until", "2020-05-01")):
        shown.fill(f"#{field}", day)
        shown.press(f"#{field}", "Enter")
    playwright.expect(shown.locator(".entry")).to_have_count(1)
    playwright.expect(shown.locator(".row .day")).to_have_text("Friday, 1 May 2020")
    shown.click("text=Delete these")
    assert "Delete 1 memory from 1 May 2020 up to 1 May 2020?" in shown.inner_text("dialog[open]")


def test_a_feed_that_is_left_open_marks_what_comes(shown: Shown, filled: SessionMemoryStore) -> None:
    visit(shown, "#/feed?agent=bob")
    playwright.expect(shown.locator(".fed")).to_have_count(3)
    playwright.expect(shown.locator(".day-head")).to_contain_text("Today")
    filled.store_memory("working_memory", "The reader is fast.", agent_id="bob", session_id="s")
    filled.store_memory("working_memory", "Of no interest.", agent_id="eve", session_id="s")
    playwright.expect(shown.locator(".fed.new")).to_have_text(re.compile("The reader is fast"))
    playwright.expect(shown).to_have_title(re.compile(r"^\(1\) Live feed"))
    shown.click("text=I have seen them")
    playwright.expect(shown.locator(".fed.new")).to_have_count(0)
    playwright.expect(shown).to_have_title(re.compile("^Live feed"))
    assert shown.locator(".fed").count() == 4


def test_a_list_says_that_it_is_being_fetched(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, listed = threading.Event(), SessionMemoryStore.get_timeline

    def in_the_end(store: SessionMemoryStore, *given: Any) -> Any:
        answers.wait()
        return listed(store, *given)

    monkeypatch.setattr(SessionMemoryStore, "get_timeline", in_the_end)
    shown.evaluate("location.hash = '#/memories'")
    shown.wait_for_selector("[role=status] >> text=Fetching memories")
    answers.set()
    playwright.expect(shown.locator(".entry")).to_have_count(4)
    assert shown.locator("text=Fetching").count() == 0


@pytest.mark.sqlite("a file")
def test_space_names_what_is_large_and_what_may_be_deleted_and_shrinks_the_file(
    shown: Shown, filled: SessionMemoryStore, tmp_path: Path
) -> None:
    filled.supersede(3, 1)
    long = [
        filled.store_memory("working_memory", f"{number} " * 60_000, agent_id="a", session_id="large")
        for number in range(12)
    ]
    visit(shown, "#/space")
    assert shown.locator(".sizes tbody th").first.inner_text() == "large"
    playwright.expect(shown.locator("main")).to_contain_text("1 superseded memory")
    playwright.expect(shown.locator("main")).to_contain_text("less than 1 MB is unused")
    for receipt in long:
        filled.delete_memory(receipt.memory_id)
    before = (tmp_path / "memory.db").stat().st_size
    shown.click("text=Shrink the file")
    shown.click("dialog[open] .does")
    playwright.expect(shown.locator("main")).to_contain_text("less than 1 MB is unused")
    assert (tmp_path / "memory.db").stat().st_size < before - 1e6
    assert filled.count_memories() == 4
    visit(shown, "#/memories")
    playwright.expect(shown.locator(".entry")).to_have_count(3)


def test_a_superseded_memory_is_listed_if_asked_for(shown: Shown, filled: SessionMemoryStore) -> None:
    filled.supersede(3, 1)
    visit(shown, "#/memories")
    playwright.expect(shown.locator(".outcome")).to_have_text("3 memories · 1 superseded memory left out")
    shown.click("text=1 superseded memory")
    playwright.expect(shown.locator(".entry")).to_have_count(4)
    shown.select_option("#state", "superseded")
    playwright.expect(shown.locator(".entry")).to_have_count(1)
    playwright.expect(shown.locator(".entry .badge")).to_have_text("superseded")
    assert "state=superseded" in shown.evaluate("location.hash")
    shown.select_option("#state", "any")
    playwright.expect(shown.locator(".entry")).to_have_count(4)


def test_a_row_says_that_a_memory_is_pinned_and_how_often_it_was_read(shown: Shown, filled: SessionMemoryStore) -> None:
    filled.pin(3)
    for _ in range(2):
        filled.get_memory_by_id(3)
    visit(shown, "#/memories?agent=bob")
    row = shown.locator(".entry", has_text="The writer is slow.")
    playwright.expect(row.locator(".badge")).to_have_text("pinned")
    playwright.expect(row).to_contain_text("read 2 times")
    playwright.expect(shown.locator(".entry .badge")).to_have_count(1)


def test_a_selection_has_a_timeline_and_a_map_whose_marks_lead_to_the_memories(shown: Shown) -> None:
    visit(shown, "#/memories?agent=bob")
    shown.click("text=Timeline and map")
    playwright.expect(shown.locator("#map .mark")).to_have_count(3)
    playwright.expect(shown.locator(".entry")).to_have_count(3)
    shown.locator("#timeline").focus()
    shown.keyboard.press("Home")
    shown.keyboard.press("Enter")
    playwright.expect(shown.locator("article h1")).to_have_text("It waits a second.")


def test_marks_that_are_too_many_are_joined_and_say_how_many_they_are(
    store: SessionMemoryStore, ui: Ui, opening: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    store_notes(store, 40)

    monkeypatch.setattr(building, "SCRIPT", building.SCRIPT.replace("MOST_MARKS_DRAWN = 4000", "MOST_MARKS_DRAWN = 5"))
    shown = opening(ui, bypass_csp=True)
    visit(shown, "#/memories?charts=shown")
    marks = shown.locator("#timeline .mark")
    marks.first.wait_for()
    assert 0 < marks.count() <= 5
    said = [re.search(r"and (\d+) others? here", str(mark)) for mark in marks.evaluate_all(LABELS)]
    assert sum(1 + int(found[1]) if found else 1 for found in said) == 40
    assert shown.locator("text=A larger mark is several of them").is_visible()


def test_hostile_texts_are_shown_as_text(shown: Shown) -> None:
    visit(shown, "#/memory/1")
    text = shown.locator("article .text")
    assert "<script>window.ran = 1</script>" in text.inner_text()
    assert text.locator("script, img, style, [onclick], [onerror]").count() == 0
    targets = text.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert targets
    assert all(target.startswith(("http:", "https:", "mailto:")) for target in targets)
    assert shown.inner_text("article h1") == TITLE
    for address in PAGES:
        visit(shown, address)


def test_hostile_names_are_shown_as_text_on_the_timeline(shown: Shown) -> None:
    visit(shown, f"#/memories?{urlencode({'task': TASK, 'charts': 'shown'})}")
    shown.wait_for_selector("#timeline .mark")
    shown.locator("#timeline").focus()
    assert TITLE in shown.inner_text(".tip")
    assert shown.input_value("#task") == TASK
    assert shown.evaluate("document.querySelectorAll('script').length") == 1


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:18999"])
def test_a_foreign_page_in_the_same_browser_reads_and_changes_nothing(
    shown: Shown, ui: Ui, filled: SessionMemoryStore, origin: str
) -> None:
    """It even knows the secret path. A page on another port is of the same site, so it sends the cookie."""
    shown.context.route(f"{origin}/*", lambda route: route.fulfill(body="<h1>Free</h1>", content_type="text/html"))
    foreign = shown.context.new_page()
    foreign.goto(f"{origin}/")
    assert set(foreign.evaluate(ATTACK, ui.base)) == {"refused"}
    popup = shown.context.new_page()
    popup.goto(f"{origin}/")
    popup.evaluate("base => { location.href = base }", ui.base)
    playwright.expect(popup.locator("h1")).to_have_text("This page is closed")
    shown.reload()
    playwright.expect(shown.locator("main h1")).to_have_text("Overview")
    assert shown.locator(".toast").count() == 0
    assert filled.count_memories() == 4


def test_a_link_that_was_stolen_opens_nothing_in_another_browser(shown: Shown, ui: Ui) -> None:
    thief = shown.context.browser.new_context().new_page()
    thief.goto(ui.link)
    assert thief.inner_text("h1") == "This link was used already"
    thief.goto(ui.base)
    assert thief.inner_text("h1") == "This page is closed"
    thief.context.close()


def test_a_question_finds_while_it_is_typed_and_its_link_finds_the_same(shown: Shown) -> None:
    visit(shown, "#/memories")
    shown.keyboard.press("/")
    shown.wait_for_selector("#question")
    shown.keyboard.type("writer")
    shown.wait_for_selector(".result mark")
    found = shown.locator(".result h2 a").all_inner_texts()
    assert "q=writer" in shown.evaluate("location.hash")
    shown.reload()
    shown.wait_for_selector(".result")
    assert shown.locator(".result h2 a").all_inner_texts() == found
    shown.click("text=Sections")
    assert "grain=section" in shown.evaluate("location.hash")
    shown.wait_for_selector(".result")
    shown.select_option("#period", "dates")
    shown.fill("#since", "2999-01-01")
    shown.press("#since", "Enter")
    playwright.expect(shown.locator(".nothing")).to_contain_text("No memory matches")


def test_memory_files_are_found_and_read(
    filled: SessionMemoryStore, opening: Callable[..., Shown], tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "rules.md").write_text(f"# Rules\n\nWriters wait in a queue.\n\n{HOSTILE}")
    settings, model = Settings(embedding_model="toy"), EmbeddingModel(ToyEngine)
    with FileMemory(tmp_path / "notes", settings, index_file=tmp_path / "index", model=model) as files:
        files.start_background_work()
        eventually(lambda: files.search("queue").results != [])
        with serving(filled, files) as ui:
            shown = opening(ui)
            visit(shown, "#/memories")
            playwright.expect(shown.locator(".outcome")).to_have_text("4 memories and 1 memory file")
            shown.click(".entry >> text=notes/rules.md")
            playwright.expect(shown.locator("article h1")).to_have_text("notes/rules.md")
            visit(shown, "#/memories?kind=memory_file")
            playwright.expect(shown.locator(".outcome")).to_contain_text("1 memory file match")
            assert shown.locator("text=Delete these").count() == 0
            visit(shown, "#/search?q=queue of writers")
            shown.select_option("#kind", "memory_file")
            shown.click(".result >> text=notes/rules.md")
            playwright.expect(shown.locator("article h1")).to_have_text("notes/rules.md")
            assert "Writers wait in a queue." in shown.inner_text("article .text")
            assert shown.locator("article .text").locator("script, img, style, [onclick], [onerror]").count() == 0
            shown.close()


def test_a_question_can_be_asked_at_home(shown: Shown) -> None:
    shown.fill("[name=q]", "writer")
    shown.press("[name=q]", "Enter")
    shown.wait_for_selector(".result")
    assert shown.input_value("#question") == "writer"


def test_why_says_what_became_of_a_memory_that_was_expected(shown: Shown) -> None:
    visit(shown, "#/search?q=writer&view=why&kind=knowledge_base")
    shown.fill("#missed", "2")
    shown.press("#missed", "Enter")
    playwright.expect(shown.locator(".notice")).to_contain_text("It waits a second. Observation 2")
    assert "outside the filters" in shown.inner_text(".notice")


def test_one_sentence_says_why_and_a_memory_is_chosen_by_its_words(shown: Shown) -> None:
    visit(shown, "#/search?q=never sleeping writers&view=why")
    shown.fill("#missed", "a second")
    shown.click(".picks >> text=Observation 2")
    playwright.expect(shown.locator(".notice")).to_contain_text("shares no word with the question; meaning")
    said = shown.inner_text(".notice")
    compared = shown.locator(".compared tbody tr")
    [rank, total] = re.search(r"Rank (\d+) of (\d+)", said).groups()
    assert (int(total), "It waits a second." in compared.nth(int(rank) - 1).inner_text()) == (compared.count(), True)
    assert compared.locator("a", has_text="Rule").count() == 1
    assert "sleeping writers" in compared.filter(has_text="Rule").inner_text()
    assert shown.locator("details >> text=cosine").first.is_visible() is False


def test_a_memory_can_be_asked_why_a_question_did_not_find_it(shown: Shown) -> None:
    visit(shown, "#/memory/2")
    shown.click("text=Why was it not found?")
    playwright.expect(shown.locator(".nothing")).to_contain_text("should have found memory 2")
    shown.fill("#question", "writer")
    playwright.expect(shown.locator(".notice")).to_contain_text("Rank")


def test_the_answer_of_an_agent_comes_with_its_tokens(shown: Shown) -> None:
    shown.evaluate("location.hash = '#/search?q=writer&view=agent&kind=knowledge_base'")
    playwright.expect(shown.locator(".outcome")).to_contain_text("tokens", timeout=30_000)
    assert "search_knowledge_base_specific_chunks" in shown.inner_text("pre.call >> nth=0")
    assert "never sleeps" in shown.inner_text("pre.call >> nth=1")


def test_deleting_asks_and_can_be_undone_after_the_page_was_closed(
    shown: Shown, ui: Ui, filled: SessionMemoryStore
) -> None:
    visit(shown, "#/memory/3")
    shown.click("text=Delete …")
    shown.click("text=Keep it")
    assert shown.locator(".toast").count() == 0
    shown.click("text=Delete …")
    shown.locator("dialog .danger").click()
    playwright.expect(shown.locator(".toast")).to_contain_text("Memory 3 will be deleted")
    context = shown.context
    shown.close()
    again = context.new_page()
    again.goto(ui.base)
    again.click(".toast button")
    playwright.expect(again.locator(".toast")).to_have_count(0)
    assert filled.count_memories() == 4


def test_what_a_filter_shows_is_deleted_together_and_can_be_undone(
    store: SessionMemoryStore, ui: Ui, opening: Callable[..., Shown]
) -> None:
    for number in range(8):
        store.store_memory("working_memory", f"Note {number}.", agent_id="a", session_id="s" if number else "t")
    shown = opening(ui)
    visit(shown, "#/memories")
    assert shown.locator("text=Delete these").count() == 0
    visit(shown, "#/memories?session=s")
    shown.click("text=Delete these")
    assert "Delete 7 memories in session s?" in shown.inner_text("dialog[open]")
    shown.click("dialog[open] .danger")
    playwright.expect(shown.locator(".toast")).to_contain_text("7 memories will be deleted")
    playwright.expect(shown.locator(".entry.leaving")).to_have_count(7)
    shown.click(".toast button")
    playwright.expect(shown.locator(".toast")).to_have_count(0)
    assert store.count_memories() == 8


def test_a_page_that_only_reads_offers_no_changes(filled: SessionMemoryStore, opening: Callable[..., Shown]) -> None:
    with serving(filled, read_only=True) as ui:
        shown = opening(ui)
        visit(shown, "#/memory/3")
        assert shown.locator("article .tools button").all_inner_texts() == ["As stored", "Copy text"]
        visit(shown, "#/")
        assert shown.locator("text=Import …").count() == 0
        shown.close()


def test_title_and_tags_are_edited_and_an_error_keeps_what_was_typed(shown: Shown) -> None:
    visit(shown, "#/memory/4")
    shown.click("text=Edit …")
    shown.fill("#edit-title", "")
    shown.click("text=Save")
    playwright.expect(shown.locator("dialog [role=alert]")).to_contain_text("needs a title")
    shown.fill("#edit-title", "<b>Writers</b>")
    shown.fill("#edit-tags", "sleep, <i>never</i>,,")
    shown.click("text=Save")
    playwright.expect(shown.locator("article h1")).to_have_text("<b>Writers</b>")
    assert shown.locator("dialog[open]").count() == 0
    playwright.expect(shown.locator("aside")).to_contain_text("sleep, <i>never</i>")


def test_a_memory_replaces_another_and_this_can_be_undone(shown: Shown) -> None:
    visit(shown, "#/memory/3")
    shown.click("text=Replaces …")
    shown.fill("#older", "1")
    shown.click("dialog[open] .does")
    playwright.expect(shown.locator("aside .pairs")).to_contain_text("Supersedes")
    shown.click(".toast button")
    playwright.expect(shown.locator("aside .pairs")).not_to_contain_text("Supersedes")
    shown.click("text=Replaces …")
    assert shown.input_value("#older") == ""
    shown.fill("#older", "1")
    shown.press("#older", "Enter")
    shown.click("aside button:has-text('Release')")
    playwright.expect(shown.locator("aside .pairs")).not_to_contain_text("Supersedes")


def test_an_export_is_imported_and_a_backup_downloaded(shown: Shown, tmp_path: Path, store: SessionMemoryStore) -> None:
    visit(shown, "#/")
    with shown.expect_download() as exported:
        shown.click("text=Export everything")
    lines = tmp_path / "memories.jsonl"
    exported.value.save_as(lines)
    store.delete_memory(4)
    shown.click("text=Import …")
    shown.set_input_files("#import-file", lines)
    shown.click("dialog[open] .does")
    playwright.expect(shown.locator(".panel > .tools")).to_contain_text("Added 1 memory; 3 already existed.")
    assert store.count_memories() == 4


class TestReview:
    """A memory with a contradiction, a near copy and a line that is none."""

    @pytest.fixture
    def filled(self, store: SessionMemoryStore) -> SessionMemoryStore:
        copied = "The writer waits for each of its readers. "
        for text in (
            *("Port 8080 is used.", "Port 9090 is used."),
            *(copied * 2, f"{copied * 2} It has no locks."),
            *("Tea is <b>hot</b>.", "Tea is <b>green</b>."),
        ):
            store.store_memory("working_memory", text, session_id="s", agent_id="a")
        with storage_of(store).write() as writer:
            for older in (1, 3, 5):
                writer.link(older + 1, Links({older: 0.9}))
        return store

    def test_lines_are_worked_through_and_the_keyboard_stays_in_the_list(
        self, shown: Shown, filled: SessionMemoryStore
    ) -> None:
        visit(shown, "#/search?q=port 8080")
        assert "may be outdated: see 2" in shown.locator(".result", has_text="Port 8080").inner_text()
        visit(shown, "#/review")
        lines = shown.locator(".conflict")
        playwright.expect(lines).to_have_count(3)
        assert lines.first.locator("del, ins").all_inner_texts() == ["8080 ", "9090 "]
        lines.first.locator("text=The earlier one is outdated").press("Enter")
        playwright.expect(lines).to_have_count(2)
        assert filled.get_memory_page(1).memory.superseded_by == [2]
        assert shown.evaluate("document.activeElement.closest('.conflict') !== null")
        lines.locator("text=Merge").click()
        playwright.expect(lines).to_have_count(1)
        shown.click(".toast button")
        playwright.expect(lines).to_have_count(2)
        visit(shown, "#/memory/1")
        later = shown.locator("aside section", has_text="Newer on this topic")
        assert (later.count(), later.locator("button").count()) == (1, 0)
        visit(shown, "#/review")
        lines.last.locator("text=Both are right").click()
        playwright.expect(lines).to_have_count(1)
        assert filled.count_memories() == 6

    def test_a_later_memory_that_is_wrong_is_taken_out_of_use_and_can_be_brought_back(
        self, shown: Shown, filled: SessionMemoryStore
    ) -> None:
        visit(shown, "#/review")
        lines = shown.locator(".conflict")
        lines.first.locator("text=The later one is wrong").click()
        playwright.expect(lines).to_have_count(2)
        playwright.expect(shown.locator(".held")).to_contain_text("Port 9090 is used.")
        found = filled.across.one("port 9090", Scope(kind=MemoryKind.WORKING_MEMORY), Page(), "chunk")
        assert 2 not in [one.memory_id for one in found.results]
        shown.click(".toast button")
        playwright.expect(lines).to_have_count(3)
        playwright.expect(shown.locator(".held")).to_have_count(0)
        playwright.expect(shown.locator(".toast")).to_contain_text("Memory 2 can be found from now on.")

    def test_what_is_held_back_is_deleted_for_good_only_after_a_question(
        self, shown: Shown, filled: SessionMemoryStore
    ) -> None:
        filled.holding.quarantine_one(2)
        visit(shown, "#/review")
        shown.click("text=Delete for good …")
        shown.click("dialog[open] >> text=Keep it")
        assert shown.locator(".held").count() == 1
        shown.click("text=Delete for good …")
        shown.click("dialog[open] .danger")
        playwright.expect(shown.locator(".held")).to_have_count(0)


def test_the_list_works_from_the_keyboard(shown: Shown) -> None:
    visit(shown, "#/memories")
    shown.locator(".entry").first.focus()
    shown.keyboard.press("ArrowDown")
    assert shown.evaluate("document.activeElement.querySelector('.name').textContent") == "The writer is slow."
    shown.keyboard.press("Enter")
    playwright.expect(shown.locator("article h1")).to_have_text("The writer is slow.")
    assert shown.evaluate("document.activeElement.tagName") == "MAIN"


@pytest.mark.parametrize("shown", [{"viewport": PHONE, "color_scheme": "dark"}], indirect=True)
def test_on_a_phone_nothing_is_wider_than_the_screen(shown: Shown) -> None:
    for address in PAGES:
        visit(shown, address)
        assert shown.evaluate("document.documentElement.scrollWidth") == PHONE["width"], address


def test_somebody_signs_in_at_a_server_for_teams_with_a_token(browser: Any, tmp_path: Path) -> None:
    Registry(tmp_path).create("red")
    secret = Registry(tmp_path).tokens.create("ada", "red", Permission.WRITE)
    with team_serving(HttpOptions(http=True, data_dir=tmp_path, ui=True), tmp_path) as url:
        context = browser.new_context(viewport=PHONE)
        page = context.new_page()
        page.goto(url.replace("/mcp", "/ui"))
        if AXE.exists():
            context.set_default_timeout(30_000)
            with_axe = browser.new_context(viewport=PHONE, bypass_csp=True).new_page()
            with_axe.goto(page.url)
            assert violations(with_axe) == []
        page.fill("#token", "vm_guessed")
        page.press("#token", "Enter")
        page.wait_for_selector("text=This token is not valid")
        page.fill("#token", secret)
        page.click("button")
        page.wait_for_selector("text=This memory is empty: red")
        assert page.inner_text("h1") == "Nothing is stored yet"
        assert page.evaluate("document.cookie") == ""
        context.close()


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(filled: SessionMemoryStore, ui: Ui, opening: Callable[..., Shown], scheme: str) -> None:
    del filled
    shown = opening(ui, color_scheme=scheme, bypass_csp=True)
    said = []
    for address in PAGES:
        visit(shown, address)
        if "/memory/" in address:
            shown.click("text=Edit …")
        said += [(address, one["id"], [node["html"][:200] for node in one["nodes"]]) for one in violations(shown)]
    assert said == []

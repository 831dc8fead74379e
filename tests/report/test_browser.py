"""The page in a real browser: Debian's Chromium, without a window, driven by Playwright."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from browsing import PHONE, WIDE, browser, needs_axe, needs_chromium, playwright, violations
from report_page import HOSTILE, WORD

__all__ = ["browser"]

pytestmark = needs_chromium

THEMES = [{"viewport": WIDE, "color_scheme": scheme} for scheme in ("light", "dark")]


@pytest.fixture
def shown(browser: playwright.Browser, page: Path, request: pytest.FixtureRequest) -> Iterator[playwright.Page]:
    """The page, opened; whatever a test does, nothing is asked of a network, said on the console, or run."""
    context = browser.new_context(**getattr(request, "param", {"viewport": WIDE, "color_scheme": "light"}))
    opened = context.new_page()
    opened.set_default_timeout(10_000)
    said: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("dialog", lambda dialog: said.append(dialog.message))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(page.as_uri())
    opened.wait_for_selector("#timeline .mark")
    yield opened
    assert said == []
    assert set(asked) == {page.as_uri()}
    assert opened.evaluate("window.ran") is None
    context.close()


def outcome(shown: playwright.Page) -> playwright.Locator:
    return shown.locator(".outcome")


def opened_memory(shown: playwright.Page, number: int) -> playwright.Locator:
    """Open a memory by its address, and return its text."""
    shown.evaluate("number => { location.hash = `#m${number}` }", number)
    shown.wait_for_selector(f".kicker:has-text(' {number}')")
    return shown.locator("article .text")


def test_memories_are_on_the_timeline_on_the_map_and_in_the_list(shown: playwright.Page) -> None:
    playwright.expect(outcome(shown)).to_have_text("5 memories")
    for place in ("#timeline .mark", "#map .mark", ".entry"):
        playwright.expect(shown.locator(place)).to_have_count(5)
    assert shown.inner_text(".figures div:first-child dd") == "5"
    assert shown.inner_text("h1") == "s"


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [("agent", "alice", 2), ("task", "T1", 2), ("kind", "report", 2), ("iteration", "v2", 3)],
)
def test_a_filter_applies_to_every_part_of_the_page(shown: playwright.Page, field: str, value: str, found: int) -> None:
    if field == "iteration":
        shown.click("text=More filters")
    if field == "kind":
        shown.select_option("#kind", value)
    else:
        shown.fill(f"#{field}", value)
        shown.press(f"#{field}", "Enter")
    playwright.expect(outcome(shown)).to_contain_text(f"{found} memories match")
    for place in ("#timeline .mark:not(.out)", "#map .mark:not(.out)", ".entry"):
        playwright.expect(shown.locator(place)).to_have_count(found)
    playwright.expect(shown.locator("#map .mark.out")).to_have_count(5 - found)
    shown.click("text=Show all")
    playwright.expect(outcome(shown)).to_have_text("5 memories")


def test_a_time_range_is_selected_by_dragging_and_cleared_by_a_click(shown: playwright.Page) -> None:
    chart = shown.locator("#growth")
    box = chart.bounding_box()
    shown.mouse.move(box["x"] + 160, box["y"] + 30)
    shown.mouse.down()
    shown.mouse.move(box["x"] + 600, box["y"] + 30)
    shown.mouse.up()
    playwright.expect(outcome(shown)).to_contain_text("2 memories match")
    playwright.expect(shown.locator("#timeline .mark:not(.out)")).to_have_count(2)
    assert shown.input_value("#since").startswith("2026-11-22T10:00")
    chart.click(position={"x": 400, "y": 30})
    playwright.expect(outcome(shown)).to_have_text("5 memories")


def test_a_session_of_seconds_fills_the_timeline(shown: playwright.Page) -> None:
    """Its first and its last memory are at the ends, and the axis counts seconds."""
    chart = shown.locator("#timeline").bounding_box()
    marks = [shown.locator(f"#timeline-{number}").bounding_box() for number in (1, 5)]
    left, right = (mark["x"] - chart["x"] for mark in marks if mark)
    assert right - left > 0.8 * (chart["width"] - 172)
    assert "10:00:15" in shown.locator("#timeline .tick").all_text_contents()


def test_a_preview_is_the_rendered_text_without_the_title_again(shown: playwright.Page) -> None:
    """No marks of Markdown; where the text is its own title, there is nothing more to show."""
    for name, rest in (("Locks", "The writer waits for readers."), ("It waits a second.", "")):
        row = shown.locator(".entry", has_text=name)
        assert [row.locator(part).text_content() for part in (".name", ".excerpt")] == [name, rest]


def test_search_finds_words_and_phrases_and_marks_them(shown: playwright.Page) -> None:
    shown.fill("#text", "WAITS")
    playwright.expect(outcome(shown)).to_contain_text("3 memories match")
    shown.fill("#text", '"writer waits" readers')
    playwright.expect(outcome(shown)).to_contain_text("1 memory match")
    assert shown.locator(".entry mark").all_inner_texts() == ["writer waits", "readers"]
    shown.fill("#text", "(.*")
    playwright.expect(outcome(shown)).to_contain_text("0 memories match")


@pytest.mark.parametrize("chart", ["timeline", "map"])
def test_a_mark_tells_what_it_is_and_opens_its_document(shown: playwright.Page, chart: str) -> None:
    shown.locator(f"#{chart}-2").hover()
    assert "It waits a second." in shown.inner_text(".tip")
    shown.locator(f"#{chart}-2").click()
    playwright.expect(shown.locator("article .text")).to_have_text("It waits a second.")
    shown.go_back()
    playwright.expect(shown.locator(".entry")).to_have_count(5)


def test_the_list_is_where_it_was_left_after_a_memory_was_read(shown: playwright.Page) -> None:
    shown.locator(".entry").last.scroll_into_view_if_needed()
    shown.wait_for_function("scrollY > 300")
    before = shown.evaluate("scrollY")
    shown.locator(".entry").last.click()
    shown.wait_for_selector("article")
    assert shown.evaluate("scrollY") == 0
    shown.go_back()
    shown.wait_for_function("before => Math.abs(scrollY - before) < 2", arg=before)


def test_the_charts_work_from_the_keyboard(shown: playwright.Page) -> None:
    def active() -> str | None:
        return shown.get_attribute("#timeline", "aria-activedescendant")

    shown.locator("#timeline").focus()
    assert active() == "timeline-1"
    shown.keyboard.press("End")
    assert active() == "timeline-5"
    shown.keyboard.press("Home")
    shown.keyboard.press("ArrowRight")
    assert active() == "timeline-2"
    assert shown.get_attribute("#timeline-2", "aria-selected") == "true"
    shown.keyboard.press("Home")
    shown.keyboard.press("Enter")
    playwright.expect(shown.locator("article h1")).to_have_text("Locks")


def test_a_kind_has_the_same_sign_everywhere_and_agents_have_other_colours(shown: playwright.Page) -> None:
    signs = {
        tuple(shown.locator(f"{place} path").first.get_attribute("class").removeprefix("mark ").split())
        for place in (".legend li:has-text('Prompt')", ".entry:has-text('Prompt')")
    }
    assert signs == {tuple(shown.locator("#timeline-4").get_attribute("class").removeprefix("mark ").split())}
    shown.select_option("#colour", "agent")
    colours = shown.locator("#timeline .mark").evaluate_all("marks => marks.map(mark => mark.classList[1])")
    assert {colour[0] for colour in colours} == {"d"}


def test_a_link_opens_its_memory_and_names_what_is_around_it(shown: playwright.Page) -> None:
    assert opened_memory(shown, 2).inner_text() == "It waits a second."
    shown.click("aside >> text=Report 1")
    playwright.expect(shown.locator("article h1")).to_have_text("Locks")
    assert "1 observation" in shown.inner_text("article")
    assert shown.locator("section:has-text('Nearest in meaning') li").count() == 3
    shown.evaluate("location.hash = '#m99'")
    playwright.expect(shown.locator("[role=alert]")).to_contain_text("99")


def test_hostile_texts_are_shown_as_text(shown: playwright.Page) -> None:
    text = opened_memory(shown, 5)
    assert "<script>window.ran = 1</script>" in text.inner_text()
    assert "[image: picture]" in text.inner_text()
    assert text.locator("script, img, style, [onclick], [onerror]").count() == 0
    targets = text.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert targets
    assert all(re.match("https?://", target) for target in targets)
    shown.click("text=As stored")
    assert shown.locator("article .raw").text_content() == HOSTILE + WORD
    assert shown.title().endswith("s")


@pytest.mark.parametrize("shown", [{"viewport": PHONE, "color_scheme": "dark"}], indirect=True)
def test_on_a_phone_nothing_is_wider_than_the_screen(shown: playwright.Page) -> None:
    for summary in shown.locator("summary").all():
        summary.click()
    for address in ("#/", "#m1", "#m5"):
        shown.evaluate("address => { location.hash = address }", address)
        shown.wait_for_selector("article" if "m" in address else ".entry")
        assert shown.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


@pytest.mark.parametrize("shown", [{"viewport": PHONE, "color_scheme": "light"}], indirect=True)
def test_the_first_rows_are_drawn_also_while_the_list_is_far_below_the_screen(shown: playwright.Page) -> None:
    """What is above it may close, and bring the list onto the screen without any scrolling."""
    shown.set_viewport_size({"width": PHONE["width"], "height": 200})
    shown.wait_for_function("innerHeight === 200 && document.querySelector('.list').getBoundingClientRect().top > 2000")
    shown.evaluate("() => new Promise(go => requestAnimationFrame(() => requestAnimationFrame(go)))")
    playwright.expect(shown.locator(".entry")).to_have_count(5)


@pytest.mark.parametrize("shown", THEMES, indirect=True)
def test_the_theme_is_the_systems_until_the_other_is_chosen(shown: playwright.Page) -> None:
    def brightness() -> int:
        colour = shown.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    dark = shown.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert (brightness() < 200) == dark
    shown.click("text=/(Light|Dark) theme/")
    assert (brightness() < 200) != dark


def test_a_printed_page_has_the_text_and_no_controls(shown: playwright.Page) -> None:
    text = opened_memory(shown, 1)
    shown.emulate_media(media="print")
    assert text.is_visible()
    assert not shown.locator(".top").is_visible()
    assert not shown.locator("text=As stored").is_visible()


@needs_axe
@pytest.mark.parametrize(
    "shown",
    [{"viewport": WIDE, "color_scheme": scheme, "bypass_csp": True} for scheme in ("light", "dark")],
    indirect=True,
)
def test_axe_finds_nothing(shown: playwright.Page) -> None:
    for summary in shown.locator("summary").all():
        summary.click()
    shown.select_option("#colour", "agent")
    shown.locator("#timeline").focus()
    assert violations(shown) == []
    opened_memory(shown, 5)
    assert violations(shown) == []

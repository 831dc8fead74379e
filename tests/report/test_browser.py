"""The page in a real browser: Debian's Chromium, without a window, driven by Playwright."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from report_page import HOSTILE, WORD

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: uv run --group browser pytest")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium, or set CHROMIUM")

WIDE, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


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
    yield opened
    assert said == []
    assert set(asked) == {page.as_uri()}
    assert opened.evaluate("window.ran") is None
    context.close()


def count(shown: playwright.Page) -> str:
    return shown.inner_text("#count")


def test_memories_are_on_the_timeline_on_the_map_and_in_the_list(shown: playwright.Page) -> None:
    for place in ("#timeline .mark", "#map .mark", "article.memory"):
        assert shown.locator(place).count() == 5
    assert count(shown) == "All 5 memories"
    assert shown.inner_text("#figures div:first-child dd") == "5"


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [("agent", "alice", 2), ("task", "T1", 2), ("kind", "report", 2), ("iteration", "v2", 3)],
)
def test_a_filter_applies_to_every_part_of_the_page(shown: playwright.Page, field: str, value: str, found: int) -> None:
    shown.select_option(f"#{field}", value)
    playwright.expect(shown.locator("#count")).to_have_text(f"{found} of 5 memories")
    for place in ("#timeline .mark:not(.out)", "#map .mark:not(.out)", "article.memory"):
        assert shown.locator(place).count() == found
    shown.click("#show-all")
    playwright.expect(shown.locator("#count")).to_have_text("All 5 memories")


def test_a_time_range_is_selected_by_dragging_and_cleared_by_a_click(shown: playwright.Page) -> None:
    chart = shown.locator("#growth svg")
    box = chart.bounding_box()
    shown.mouse.move(box["x"] + 260, box["y"] + 30)
    shown.mouse.down()
    shown.mouse.move(box["x"] + 320, box["y"] + 30)
    shown.mouse.up()
    playwright.expect(shown.locator("#count")).to_have_text("0 of 5 memories")
    assert shown.input_value("#from")
    chart.click(position={"x": 400, "y": 30})
    playwright.expect(shown.locator("#count")).to_have_text("All 5 memories")


def test_a_session_of_seconds_fills_the_timeline(shown: playwright.Page) -> None:
    """Its first and its last memory are at the ends, and the axis counts seconds."""
    chart = shown.locator("#timeline svg").bounding_box()
    marks = [shown.locator(f"#timeline-{number}").bounding_box() for number in (1, 5)]
    left, right = (mark["x"] - chart["x"] for mark in marks if mark)
    assert right - left > 0.8 * (chart["width"] - 172)
    assert "10:00:15" in shown.locator("#timeline .tick").all_text_contents()


def test_a_preview_is_the_rendered_text_without_the_title_again(shown: playwright.Page) -> None:
    """No marks of Markdown; where the text is its own title, there is nothing more to show."""
    assert shown.locator("#m1 .excerpt").text_content() == "The writer waits for readers."
    assert shown.locator("#m2 h3").text_content() == "It waits a second."
    assert shown.locator("#m2 .excerpt").text_content() == ""


def test_search_finds_words_and_phrases_and_marks_them(shown: playwright.Page) -> None:
    shown.fill("#query", "WAITS")
    playwright.expect(shown.locator("#count")).to_have_text("3 of 5 memories")
    shown.fill("#query", '"writer waits" readers')
    playwright.expect(shown.locator("#count")).to_have_text("1 of 5 memories")
    shown.click("#m1 h3 button")
    assert shown.locator("#m1 .text mark").all_inner_texts() == ["writer waits", "readers"]
    shown.fill("#query", "(.*")
    playwright.expect(shown.locator("#count")).to_have_text("0 of 5 memories")


@pytest.mark.parametrize("chart", ["timeline", "map"])
def test_a_mark_tells_what_it_is_and_opens_its_document(shown: playwright.Page, chart: str) -> None:
    shown.locator(f"#{chart}-2").hover()
    assert "It waits a second." in shown.inner_text("#tip")
    shown.locator(f"#{chart}-2").click()
    playwright.expect(shown.locator("#m2 .text")).to_have_text("It waits a second.")
    assert shown.evaluate("location.hash") == "#m2"
    assert shown.locator("#m2 h3 button").evaluate("button => button === document.activeElement")


def test_the_charts_work_from_the_keyboard(shown: playwright.Page) -> None:
    shown.locator("#timeline svg").focus()
    assert shown.get_attribute("#timeline svg", "aria-activedescendant") == "timeline-1"
    shown.keyboard.press("End")
    assert shown.get_attribute("#timeline svg", "aria-activedescendant") == "timeline-5"
    shown.keyboard.press("Home")
    shown.keyboard.press("ArrowRight")
    assert shown.get_attribute("#timeline svg", "aria-activedescendant") == "timeline-2"
    shown.keyboard.press("Home")
    shown.keyboard.press("Enter")
    playwright.expect(shown.locator("#m1 .body")).to_be_visible()


def test_a_link_opens_its_memory_even_when_a_filter_hides_it(shown: playwright.Page) -> None:
    shown.select_option("#kind", "input_prompt")
    playwright.expect(shown.locator("#count")).to_have_text("1 of 5 memories")
    shown.evaluate("location.hash = '#m2'")
    playwright.expect(shown.locator("#m2 .text")).to_be_visible()
    assert shown.locator("#m2 .more a").get_attribute("href") == "#m1"


def test_hostile_texts_are_shown_as_text(shown: playwright.Page) -> None:
    shown.click("#open-all")
    text = shown.locator("#m5 .text")
    assert "<script>window.ran = 1</script>" in text.inner_text()
    assert "[image: picture]" in text.inner_text()
    assert text.locator("script, img, style, [onclick], [onerror]").count() == 0
    targets = text.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert targets
    assert all(re.match("https?://", target) for target in targets)
    shown.locator("#m5 .tools button", has_text="As stored").click()
    assert shown.locator("#m5 .raw").text_content() == HOSTILE + WORD
    assert shown.title().startswith("s")


@pytest.mark.parametrize("shown", [{"viewport": PHONE, "color_scheme": "dark"}], indirect=True)
def test_on_a_phone_nothing_is_wider_than_the_screen(shown: playwright.Page) -> None:
    shown.click("#open-all")
    for summary in shown.locator("summary").all():
        summary.click()
    assert shown.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


@pytest.mark.parametrize(
    "shown", [{"viewport": WIDE, "color_scheme": scheme} for scheme in ("light", "dark")], indirect=True
)
def test_the_theme_is_the_systems_until_the_other_is_chosen(shown: playwright.Page) -> None:
    def brightness() -> int:
        colour = shown.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    dark = shown.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert (brightness() < 200) == dark
    shown.click("#theme")
    assert (brightness() < 200) != dark


def test_a_printed_page_has_the_open_texts_and_no_controls(shown: playwright.Page) -> None:
    shown.click("#m1 h3 button")
    shown.emulate_media(media="print")
    assert shown.locator("#m1 .text").is_visible()
    assert not shown.locator("#filters").is_visible()

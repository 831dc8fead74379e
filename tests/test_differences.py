"""Where two texts on one subject say different things."""

import pytest

from vector_memory.reading.review import MOST, differing, what_changed


@pytest.mark.parametrize(
    ("older", "newer", "expected"),
    [
        ("The server listens on port 8080.", "Since May the server listens on port 9090.", ["8080 → 9090"]),
        ("PostgreSQL 15.3.1 is in production.", "In production runs PostgreSQL 16.1.0.", ["15.3.1 → 16.1.0"]),
        ("Logs are in /var/log/app.", "Logs are in /srv/log/app now.", ["/var/log/app → /srv/log/app"]),
        ("The release is on 2026-03-01.", "The release moved to 2026-04-15.", ["2026-03-01 → 2026-04-15"]),
        ("The timeout is 30 s, the limit 5 MB.", "The timeout is 45 s, the limit 5 MB.", ["30 s → 45 s"]),
    ],
)
def test_a_value_in_the_place_of_another_one_is_a_difference(older: str, newer: str, expected: list[str]) -> None:
    assert differing(older, newer) == expected


def test_a_sentence_that_negates_another_one_is_a_difference() -> None:
    newer = "Retries are not enabled for uploads."
    assert differing("Retries are enabled for uploads.", newer) == [newer]
    assert differing(newer, "Retries are enabled for uploads.") == ["Retries are enabled for uploads."]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The timeout is 30 s.", "The timeout is 30 s, as before."),
        ("Uploads need 30 s.", "Billing has 45 customers."),
        ("Retries are enabled.", "The cache is not shared."),
        ("", ""),
    ],
)
def test_texts_that_say_the_same_or_speak_of_other_things_do_not_differ(older: str, newer: str) -> None:
    assert differing(older, newer) == []


def test_of_many_differences_the_ones_with_most_words_in_common_are_named() -> None:
    names = ("timeout", "limit", "port", "batch", "depth")
    older = "\n".join(f"The {name} is {number}." for number, name in enumerate(names, 10))
    newer = "\n".join(f"The {name} is {number}." for number, name in enumerate(names, 20))
    assert differing(older, newer) == [f"{number} → {number + 10}" for number in range(10, 10 + MOST)]


def test_of_two_texts_the_sentences_that_changed_are_in_pieces() -> None:
    older = "Intro. The server listens on port 8080. It is fast."
    newer = "# News\n\nSince May the server listens on port 9090. It is fast."
    assert what_changed(older, newer) == [
        ("The ", "Since May the "),
        ("server listens on port ", "server listens on port "),
        ("8080. ", "9090. "),
    ]


def test_a_heading_that_changed_is_no_sentence() -> None:
    pieces = what_changed("# Staging database\n\nIt has port 5432.", "# Staging database moved\n\nIt has port 5433.")
    assert pieces == [("It has port ", "It has port "), ("5432. ", "5433. ")]


@pytest.mark.parametrize(
    ("older", "newer"), [("It is fast.", "It is fast."), ("Tea is hot.", "Logs are long."), ("", "x")]
)
def test_texts_without_a_sentence_that_changed_have_no_pieces(older: str, newer: str) -> None:
    assert what_changed(older, newer) == []

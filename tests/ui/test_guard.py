"""Who can reach the page: one browser on this machine, and in it no page but its own."""

import pytest

from ui.conftest import Ui
from vector_memory.extras.window.guard import COOKIE
from vector_memory.store import SessionMemoryStore


def test_a_link_opens_the_page_in_one_browser_only(ui: Ui) -> None:
    """The browser that opened it first may use it again, as a reload does; a stolen one is worth nothing."""
    assert ui.client.get(ui.link).status_code == 200
    assert ui.client.get(ui.link).status_code == 200
    ui.client.cookies.clear()
    stolen = ui.client.get(ui.link)
    assert (stolen.status_code, "set-cookie" in stolen.headers) == (403, False)
    assert "used already" in stolen.text


def test_the_cookie_is_for_this_page_alone_and_no_script_reads_it(ui: Ui) -> None:
    """No other port of this machine gets it: cookies do not know ports, but this one has a path that is secret."""
    cookie = ui.client.get(ui.link).headers["set-cookie"]
    path = "/" + ui.base.split("/")[3] + "/"
    assert cookie.split("; ")[1:] == [f"Path={path}", "HttpOnly", "SameSite=Strict"]
    assert len(path) > 16


@pytest.mark.parametrize("path", ["", "api/home", "api/memories", "api/memories/1", "api/export?session=s"])
def test_without_the_cookie_nothing_is_told(ui: Ui, store: SessionMemoryStore, path: str) -> None:
    store.store_memory("input_prompt", "A secret plan.", session_id="s")
    for cookie in ("", f"{COOKIE}=guessed", f"{COOKIE}="):
        answer = ui.ask(path, cookie=cookie)
        assert answer.status_code == 403
        assert "secret plan" not in answer.text


def test_elsewhere_on_the_port_there_is_nothing(ui: Ui) -> None:
    ui.enter()
    port = ui.base.split("/")[2]
    secret = ui.client.cookies[COOKIE]
    for path in ("/", "/api/home", "/x" + ui.base.split("/")[3] + "/", f"/{ui.base.split('/')[3]}x/api/home"):
        assert ui.client.get(f"http://{port}{path}", headers={"cookie": f"{COOKIE}={secret}"}).status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "memory.evil.example"}, 421),  # a name that was rebound to this machine
        ({"host": "127.0.0.1.evil.example:80"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),  # another server on this machine
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_a_foreign_page_reaches_nothing_even_with_the_cookie(ui: Ui, headers: dict[str, str], status: int) -> None:
    ui.enter()
    for path in ("", "api/home"):
        assert ui.ask(path, **headers).status_code == status


def test_every_answer_forbids_foreign_scripts_frames_and_caches(ui: Ui) -> None:
    ui.enter()
    for path in ("", "api/home", "nothing", "api/memories/99"):
        headers = ui.ask(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers

"""The docs: fresh, without dead links, and true about commands and dependencies."""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from claims import Claims, is_shown, listed, pages, without_evidence
from imported import imported
from vector_memory import errors
from vector_memory.cli.commands import app
from vector_memory.clients.registry import CLIENTS

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("**/*.md")), ROOT / "tests" / "claims.md"]
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

CLAIMS = listed()
NOT_SHOWN = """\
Nothing shows these numbers. Write the sentence without the number, name the test or benchmark in its section (in a
list: in its item), or add a row to tests/claims.md: | words with the number | test, benchmark, constant or setting |
"""


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings have where it is shown."""
    text = CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


@pytest.fixture
def make_docs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script that writes the generated docs, as it is called to check them."""
    monkeypatch.setattr(sys, "argv", ["make_docs.py", "--check"])
    return imported(ROOT / "scripts" / "make_docs.py")


def test_generated_docs_are_fresh(make_docs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The files equal the output of scripts/make_docs.py."""
    make_docs.main()
    assert "are fresh" in capsys.readouterr().out


def test_a_table_of_the_generated_docs_has_a_cell_for_each_of_its_columns() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        columns = 0
        for line in CODE_BLOCK.sub("", page.read_text(encoding="utf-8")).splitlines():
            cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
            assert not columns or not cells or cells == columns, f"{page.name}: {line}"
            columns = cells


def test_the_docs_say_which_agents_read_what_the_hooks_of_their_client_recall() -> None:
    rows = re.findall(r"^\| `(\w+)` \| prompts.*\| (.*) \|$", (ROOT / "docs/hooks.md").read_text("utf-8"), re.MULTILINE)
    assert {name: "recap" in received for name, received in rows} == {
        name: client.command_hooks.answer is not None for name, client in CLIENTS.items() if client.command_hooks
    }


def test_the_pictures_are_of_the_pages_as_they_are() -> None:
    """After a change of a page: uv run --group browser python scripts/make_screenshot.py."""
    pictures = imported(ROOT / "scripts" / "make_screenshot.py")
    assert pictures.SHOWN.read_text().strip() == pictures.digest()


def test_stale_docs_are_noticed(make_docs: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A generated page that was changed by hand fails the check and is not touched by it."""
    monkeypatch.setattr(make_docs, "DOCS", tmp_path)
    early = make_docs.EARLY.read_text(encoding="utf-8").splitlines()
    monkeypatch.setattr(make_docs, "early_answers", lambda: iter(early))  # asking the servers takes seconds
    for name in ("commands", "configuration", "tools", "schema"):
        monkeypatch.setattr(make_docs, name, lambda: iter(["generated"]))
        (tmp_path / f"{name}.md").write_text("generated\n", encoding="utf-8")
    make_docs.main()
    page = tmp_path / "tools.md"
    page.write_text("changed by hand", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^Not fresh: tools\.md\."):
        make_docs.main()
    assert page.read_text(encoding="utf-8") == "changed by hand"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file, and to a heading, has its target."""
    for target in LINK.findall(CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_index_names_every_page() -> None:
    """docs/index.md is the map of all docs."""
    linked = set(LINK.findall((ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    assert linked == {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")} - {"index.md"}


def test_pages_stay_short() -> None:
    """Notes for agents fit 60 lines, and the README 110."""
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) <= 60
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_exist(page: Path) -> None:
    """Every command of ours that a page shows is one."""
    commands = set(app)
    for shown in re.findall(r"(?:run main\.py|`vector-memory) +([a-z][a-z-]+)", page.read_text(encoding="utf-8")):
        assert shown in commands


def test_every_error_code_has_a_line_that_says_what_to_do() -> None:
    codes = {found.code for found in vars(errors).values() if isinstance(found, type) and hasattr(found, "code")}
    assert set(re.findall(r"^\| `([A-Z]\w+)` \|", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE)) == codes


def test_every_dependency_has_a_reason() -> None:
    """docs/dependencies.md has a row for whatever pyproject.toml asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = list(project["project"]["dependencies"])
    for more in (project["project"]["optional-dependencies"], project["dependency-groups"]):
        wanted += [requirement for requirements in more.values() for requirement in requirements]
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    for requirement in wanted:
        name = re.match(r"[\w-]+", requirement)
        assert name
        assert name[0] in text


def test_every_address_of_the_project_names_the_same_account() -> None:
    """The account in the registry's name is the one in pyproject.toml's addresses and in SECURITY.md."""
    account = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))["name"].split("/")[0].rpartition(".")[2]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = " ".join([*project["urls"].values(), (ROOT / "SECURITY.md").read_text(encoding="utf-8")])
    assert set(re.findall(r"github\.com/([\w-]+)/vector-memory", text)) == {account}


def test_example_for_clients_is_usable_as_it_is() -> None:
    """The example is JSON, needs no variable to be set, and starts the server."""
    text = (ROOT / ".mcp.json.example").read_text(encoding="utf-8")
    server = json.loads(text)["mcpServers"]["vector-memory"]
    assert server["command"] == "uv"
    assert server["args"][-2:] == ["vector-memory", "serve"]
    assert all(":-" in variable for variable in re.findall(r"\$\{([^}]*)\}", text))


@pytest.mark.parametrize("page", pages(CLAIMS), ids=page_name)
def test_every_number_is_shown(page: Path) -> None:
    """What a page claims with a number can be checked: by a test, a benchmark, a constant or a setting's default."""
    found = [f"{page_name(page)}:{one.line}: {one.text}" for one in without_evidence(page.read_text("utf-8"), CLAIMS)]
    assert not found, NOT_SHOWN + "\n".join(found)


@pytest.mark.parametrize("words", CLAIMS.shown_by)
def test_what_shows_a_number_is_there_and_says_the_same(words: str) -> None:
    """The list names no words that are gone, no test or benchmark that is gone, and no constant that has changed."""
    texts = [" ".join(page.read_text(encoding="utf-8").split()) for page in pages(CLAIMS)]
    assert any(words in text for text in texts), "No page has these words: remove the row from tests/claims.md."
    assert is_shown(words, CLAIMS.shown_by[words]), CLAIMS.shown_by[words]


@pytest.mark.parametrize("page", CLAIMS.figures)
def test_the_benchmarks_of_a_page_of_figures_exist(page: str) -> None:
    assert is_shown("", CLAIMS.figures[page])


@pytest.mark.parametrize(
    "text",
    [
        "It takes 3 ms.",
        "1 ms each.",
        "| a search | 3 ms |",
        "# Shown\n\n`tests/test_docs.py` does.\n\n# Not shown\n\nIt takes 3 ms.",
        "- `tests/test_docs.py` shows this item.\n- It takes 3 ms.",
        "It takes 3 ms (`tests/that_is_gone.py`).",
        "At most 40 texts wait for 3 ms.",
    ],
)
def test_a_number_that_nothing_shows_is_noticed(text: str) -> None:
    assert [*without_evidence(text, Claims({}, {"40 texts": "x"}))]


@pytest.mark.parametrize(
    "text",
    [
        "It takes 3 ms (`tests/test_docs.py`).",
        "See `limit=5`, SHA-256, Python 3.11, and 2026-10-05; a share is from 0 to 1.",
        "Chunks have `VECTOR_MEMORY_DEFAULT_CHUNK_SIZE` (450) tokens.",
        "At most 40 texts wait.",
        "It takes 3 ms ([measured](lab/performance.md#x)).",
    ],
)
def test_a_number_that_something_shows_needs_no_more(text: str) -> None:
    assert not [*without_evidence(text, Claims({"performance.md": "x"}, {"40 texts": "x"}))]


SOURCE = Path(__file__).parents[1] / "src"
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{{1,2}\d*,?\d*\}{1,2})\+")


def test_no_possessive_quantifier_follows_a_group() -> None:
    """Python 3.11.0 to 3.11.4 matches wrongly if the group can backtrack; an atomic group says the same."""
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("published.json")])
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if POSSESSIVE_GROUP.search(line)
    ]
    assert found == []

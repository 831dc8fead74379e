"""What other clients remember by themselves: found by searches with its origin, followed, and never written."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers import Server
from vector_memory.clients.reading.own_memories import OwnMemories, rivals
from vector_memory.clients.registry import CLIENTS
from vector_memory.domain import OWN_MEMORIES, Page, Project, Scope
from vector_memory.files.folder import MAX_FILE_BYTES
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from waiting import eventually

TOY = Settings(embedding_model="toy")
FACT = (
    "---\nname: tabs\ndescription: indentation\nmetadata:\n  type: feedback\n---\n\nThe user wants tabs in Makefiles.\n"
)
KEY = "AKIA" + "QYLPMN5HHHFPZAM2"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path / "project"], check=True)
    return tmp_path / "project"


@pytest.fixture
def store(project: Path) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(project / "memory.db", TOY) as opened:
        yield opened


def dashed(project: Path) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", str(project))


def write(file: Path, text: str = FACT) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def agents_in(store: SessionMemoryStore) -> dict[str, str]:
    """Return which agent remembers which file."""
    found = store.search_scoped(Scope("report", session_id=OWN_MEMORIES), Page(limit=50)).results
    return {f"{one.metadata['root']}/{one.metadata['source']}".replace("//", "/"): one.agent_id for one in found}


PLACES = {  # as the pinned releases write them; Codex's from its own prompts
    "~/.claude/projects/{dashed}/memory/MEMORY.md": "claude",
    "~/.claude/projects/{dashed}/memory/feedback/tabs.md": "claude",
    "~/.claude/agent-memory/reviewer/MEMORY.md": "claude",
    "{project}/.claude/agent-memory/reviewer/MEMORY.md": "claude",
    "{project}/.claude/agent-memory-local/reviewer/MEMORY.md": "claude",
    "~/.qwen/memories/user/tabs.md": "qwen",
    "~/.qwen/projects/{dashed}/memory/MEMORY.md": "qwen",
    "{project}/.qwen/team-memory/MEMORY.md": "qwen",
    "~/.codex/memories/MEMORY.md": "codex",
    "~/.codex/memories/memory_summary.md": "codex",
    "~/.gemini/GEMINI.md": "gemini",
    "~/.gemini/tmp/work/memory/MEMORY.md": "gemini",
    "~/.grok/memory/MEMORY.md": "grok",
}
OTHERS = (
    "~/.claude/projects/-tmp-other/memory/MEMORY.md",
    "~/.claude/projects/{dashed}/notes.md",
    "~/.claude/projects/{dashed}/memory/notes.txt",
    "~/.qwen/projects/-tmp-other/memory/MEMORY.md",
    "~/.codex/memories/raw_memories.md",
    "~/.codex/memories/rollout_summaries/one.md",
    "~/.codex/AGENTS.md",
    "~/.gemini/tmp/other/memory/MEMORY.md",
    "~/.gemini/tmp/work/memory/.inbox/private/extraction.md",
    "~/.grok/memory/project-d639074e/MEMORY.md",
)
"""Files of other projects, of sessions, or that the user has not accepted."""


def test_what_clients_remember_of_this_project_and_of_all_is_found_with_its_origin(
    home: Path, project: Path, store: SessionMemoryStore
) -> None:
    def path(named: str) -> Path:
        return Path(named.replace("~", str(home)).format(dashed=dashed(project), project=project))

    for number, named in enumerate([*PLACES, *OTHERS]):
        write(path(named), f"Fact {number} of {named}.")
    write(home / ".gemini/tmp/work/.project_root", str(project))
    write(home / ".gemini/tmp/other/.project_root", str(project.parent))
    before = {file: file.stat().st_mtime_ns for file in home.rglob("*")}
    OwnMemories(store, project).sync()
    assert agents_in(store) == {str(path(named)): agent for named, agent in PLACES.items()}
    found = store.search_chunks("Fact 1 feedback tabs", Scope("report")).results[0]
    assert (found.agent_id, found.title) == ("claude", "Claude Code's own memory: feedback/tabs.md")
    assert {file: file.stat().st_mtime_ns for file in home.rglob("*")} == before, "nothing is written there"


def test_an_edited_file_is_found_with_its_new_text_and_a_deleted_one_is_gone(
    home: Path, project: Path, store: SessionMemoryStore
) -> None:
    own, file = OwnMemories(store, project), write(home / ".qwen/memories/tabs.md")

    def texts() -> list[str]:
        own.sync()
        return [one.content for one in store.search_scoped(Scope("report")).results]

    assert texts() == texts() == [FACT.strip()]
    write(file, "The user wants spaces.")
    assert texts() == ["The user wants spaces."]
    file.unlink()
    assert texts() == []


@pytest.mark.parametrize("name", ["file", "hard", "folder", "root"])
def test_no_link_leads_out_of_a_folder(name: str, home: Path, project: Path, store: SessionMemoryStore) -> None:
    secret, inside = write(home / "private/notes.md"), home / ".claude/agent-memory"
    if name == "root":
        inside.parent.mkdir(parents=True)
        inside.symlink_to(secret.parent)
    else:
        write(inside / "mine.md", "Mine.")
        if name == "hard":
            (inside / "notes.md").hardlink_to(secret)
        else:
            (inside / name).with_suffix(".md" if name == "file" else "").symlink_to(
                secret if name == "file" else secret.parent
            )
    OwnMemories(store, project).sync()
    assert set(agents_in(store)) == (set() if name == "root" else {str(inside / "mine.md")})


def test_secrets_are_removed_and_what_is_too_long_or_no_text_is_left_out(
    home: Path, project: Path, store: SessionMemoryStore
) -> None:
    write(home / ".qwen/memories/key.md", f"The key is {KEY}. <private>Mine.</private>")
    write(home / ".qwen/memories/empty.md", "")
    (home / ".qwen/memories/long.md").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (home / ".qwen/memories/bytes.md").write_bytes(b"\xff\xfe\x00")
    OwnMemories(store, project).sync()
    (only,) = store.search_scoped(Scope("report")).results
    assert KEY not in only.content
    assert "Mine" not in only.content


def test_a_file_with_a_secret_in_its_name_is_left_out(home: Path, project: Path, store: SessionMemoryStore) -> None:
    named, other = (write(home / f".qwen/memories/{name}.md") for name in (KEY, "tabs"))
    own = OwnMemories(store, project)
    own.sync()
    assert set(agents_in(store)) == {str(other)}
    other.unlink()
    named.rename(other)
    own.sync()
    assert set(agents_in(store)) == {str(other)}


def test_a_memory_that_was_deleted_here_comes_back_only_with_a_new_text(
    home: Path, project: Path, store: SessionMemoryStore
) -> None:
    file = write(home / ".qwen/memories/tabs.md")
    OwnMemories(store, project).sync()
    (memory,) = store.search_scoped(Scope("report")).results
    store.delete_memory(memory.id)
    for _ in range(2):
        OwnMemories(store, project).sync()
        assert not agents_in(store)
    write(file, "The user wants spaces.")
    OwnMemories(store, project).sync()
    assert set(agents_in(store)) == {str(file)}


def test_projects_that_share_a_memory_keep_what_is_remembered_of_each(home: Path, tmp_path: Path) -> None:
    projects = [tmp_path / "one", tmp_path / "two"]
    files = [home / f".claude/projects/{dashed(one)}/memory/MEMORY.md" for one in projects]
    with SessionMemoryStore(tmp_path / "shared.db", TOY) as store:
        for one, file in zip(projects, files, strict=True):
            one.mkdir()
            write(file, f"About {one.name}.")
            OwnMemories(store, one).sync()
        assert set(agents_in(store)) == set(map(str, files))
        about = Scope("report", project=str(projects[0]))
        assert [one.content for one in store.search_scoped(about).results] == ["About one."]


def test_the_last_session_is_not_what_clients_remember(home: Path, project: Path, store: SessionMemoryStore) -> None:
    store.store_memory("report", "A finding.", agent_id="a", session_id="yesterday")
    write(home / ".qwen/memories/tabs.md")
    OwnMemories(store, project).sync()
    assert store.past.last_session(Project.at(project, project / "memory.db"), None) == "yesterday"


def test_a_server_follows_what_other_clients_remember_unless_told_not_to(home: Path, project: Path) -> None:
    file = write(home / ".qwen/memories/tabs.md")

    def found(server: Server, query: str) -> list[str]:
        return [one["chunk_content"] for one in server.call("search_reports_specific_chunks", query=query)["results"]]

    with Server(project, VECTOR_MEMORY_OWN_MEMORIES="true") as server:
        server.hello()
        eventually(lambda: any("tabs in Makefiles" in text for text in found(server, "tabs in Makefiles")))
        write(file, "Deploys need the blue key.")
        eventually(lambda: any("blue key" in text for text in found(server, "blue key")))
        write(home / ".claude/agent-memory/reviewer/MEMORY.md", "Reviews check the locks.")
        eventually(lambda: any("the locks" in text for text in found(server, "Reviews check locks")))
        file.unlink()
        eventually(lambda: not any("blue key" in text for text in found(server, "blue key")))
    for flags in ({"VECTOR_MEMORY_OWN_MEMORIES": "false"}, {"VECTOR_MEMORY_READ_ONLY": "true"}):
        write(file, "Nobody asked for this.")
        with Server(project, **{"VECTOR_MEMORY_OWN_MEMORIES": "true"} | flags) as server:
            server.hello()
            assert not any("Nobody" in text for text in found(server, "Nobody asked"))


@pytest.mark.parametrize(
    ("name", "folder", "off"),
    [
        ("claude", ".claude", '{"autoMemoryEnabled": false}'),
        ("qwen", ".qwen", '{"memory": {"enableManagedAutoMemory": false}} // mine'),
    ],
)
def test_the_doctor_says_whose_memory_competes_until_it_is_turned_off(
    name: str, folder: str, off: str, home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home))
    assert rivals(project) == []
    write(home / folder / "settings.json", "{}")
    write(home / f"{folder}.json", "{}")  # by which Claude Code is known
    (finding,) = rivals(project)
    assert CLIENTS[name].title in finding.message
    assert CLIENTS[name].remembers in str(finding.advice)
    write(home / folder / "settings.json", off)
    assert rivals(project) == []

"""What `.gitignore` names is left out as Git leaves it out."""

import os
import random
from pathlib import Path, PurePosixPath

import pytest

from repositories import Git, git, project
from vector_memory.files.folder import walk

__all__ = ["git", "project"]

FILES = """
    a.md b.md c.txt docs/a.md docs/b.md docs/c.txt docs/x/a.md docs/x/y/a.md build/a.md src/build/a.md deep/a/b/c/d.md
    #a.md !a.md a[1].md a1.md foo Ä.md tab\\t.md back\\slash.md logs/a.log.md
""".split()  # noqa: SIM905 - shorter
FILES += ["foo ", "foo bar.md", "x.md "]

RULES = {
    "an exception to a folder": "docs/**\n!docs/x/\n!docs/x/a.md\n",
    "only one sort of file": "*\n!*/\n!*.md\n",
    "all but one folder": "/d*\n!/docs\n",
    "an exception below an ignored folder": "docs/\n!docs/a.md\n",
    "an exception beside an ignored folder": "docs/*\n!docs/x\n",
    "the last rule": "!a.md\na.md\n!b.md\n",
    "at the top": "/build\n",
    "anywhere": "build\n",
    "only folders": "foo/\ndeep/\n",
    "below anywhere": "**/x\n",
    "between": "docs/**/a.md\n",
    "stars in a name": "d**s/a.md\n",
    "everything in": "deep/**\n",
    "one level down": "*/a.md\n",
    "letters": "[a-b].md\n",
    "other letters": "docs/[!a].md\n",
    "other letters, too": "docs/[^a].md\n",
    "a class of letters": "[[:alpha:]].md\n",
    "a set that is not closed": "[a.md\nb.md\n",
    "brackets": "a\\[1\\].md\n",
    "a hash": "\\#a.md\n",
    "an exclamation mark": "\\!a.md\n",
    "backslashes": "back\\\\slash.md\n",
    "spaces at the end": "foo  \nfoo bar.md \n",
    "a space that counts": "x.md\\ \n",
    "a tab at the end": "foo\t\n",
    "a space at the beginning": " foo\n",
    "line ends of Windows": "a.md\r\nb.md\r\n",
    "other characters that end lines elsewhere": "a.md\rx\nb.md\x0bx\nfoo\u2028x\n",
    "a byte order mark": "\ufeffa.md\n",
    "paths that lead nowhere": "./a.md\n../b.md\n/\n",
    "other cases": "A.MD\n",
    "letters with accents": "Ä.md\n",
    "remarks": "# a.md\n\n   \nb.md\n",
}


def left_by_git(run: Git) -> set[str]:
    """Return the files that Git shows, without hidden ones."""
    shown = run("ls-files", "-z", "--cached", "--others", "--exclude-per-directory=.gitignore")
    return {path for path in shown.split("\0") if path and not PurePosixPath(path).name.startswith(".")}


def walked(folder: Path) -> set[str]:
    return {str(entry.path) for entry in walk(folder, lambda _path, _reason: None)}


@pytest.fixture
def repository(git: Git, project: Path) -> Path:
    git("rm", "--quiet", "code.py")
    for name in FILES:
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return project


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_folder_has_the_files_that_git_shows(repository: Path, git: Git, rules: str) -> None:
    (repository / ".gitignore").write_text(rules, newline="")
    assert walked(repository) == left_by_git(git)


@pytest.mark.parametrize(
    ("outer", "inner"), [("a.md\n", "!a.md\n"), ("!a.md\n", "a.md\n"), ("b.md\n", "/a.md\n"), ("docs/x/\n", "!x\n")]
)
def test_the_rules_of_an_inner_folder_decide(repository: Path, git: Git, outer: str, inner: str) -> None:
    (repository / ".gitignore").write_text(outer)
    (repository / "docs/.gitignore").write_text(inner)
    assert walked(repository) == left_by_git(git)


def test_rules_count_in_a_folder_that_they_name_although_it_is_given(repository: Path) -> None:
    (repository / ".gitignore").write_text("docs/\nb.md\n")
    assert walked(repository / "docs") == {"a.md", "c.txt", "x/a.md", "x/y/a.md"}


NAMES = [os.fsdecode(b"\xe9"), "a b", "a ", "日本.md", "note-e.md", "note-é.md", "a\r", "a\t", "\x01"]
NAMES += r"""
    a b c A ab a-b a.md é Ä #a !a [a] a] ] - ^ * a* ? a\ \a \ 7 a7 _ {a} aaab
""".split()  # noqa: SIM905 - shorter
INNER = ["a", "b", "é", "a b", "ab", "[a]", "-"]
CLASSES = ("alpha", "digit", "upper", "punct", "space", "cntrl", "graph", "xdigit", "none", "")
PIECES = [*NAMES, *r"ab*?/[]!-\^# .é7", r"\ ", "  ", *(f"[[:{name}:]]" for name in CLASSES)]
PIECES += r"""
    ** **/ /** /**/ // */ *** \/ \* \[ a** **a ?é [ab] [!a] [^a-c] [a-c] [é] [à-é] [!é] []a] [!]a] [a-] [--a] [\]a]
    [a\-b] [b-a] [a [[:alpha:]-z] [a-[:alpha:]] [[:alpha:] [[:] [![:lower:]] [[:-a] [/] [!/]a
""".split()  # noqa: SIM905 - shorter


def random_rules(chance: random.Random) -> bytes:
    lines = []
    for _ in range(chance.randint(1, 5)):
        pattern = "".join(chance.choices(PIECES, k=chance.choice([1, 1, 2, 2, 3, 4, 6])))
        lines.append(
            chance.choice(["", "", "", "!", "/", "#", " "])
            + pattern
            + chance.choice(["", "", "/", " ", "\\", "\r", "\0a"])
        )
    data = chance.choice(["\n", "\n", "\r\n"]).join([*lines, "!MEMORY.md"])  # files of a memory are never all left out
    return chance.choice([b"", b"", b"\xef\xbb\xbf"]) + os.fsencode(data) + chance.choice([b"", b"\n"])


def folders_that_differ(project: Path, run: Git, seed: int, number: int) -> list[tuple[list[bytes], set[str]]]:
    """Return the rules for which the walk and Git disagree, and the paths."""
    chance, found = random.Random(seed), []
    for path in (".", *INNER, "a/b", "a/b/é", "é/a", "b/ab/a"):
        folder = project / path
        folder.mkdir(exist_ok=True, parents=True)
        for name in chance.sample(NAMES, 16 if path != "." else len(NAMES)):
            if not (folder / name).exists() and name not in INNER:
                (folder / name).touch()
    for _ in range(number):
        places = [
            project / place / ".gitignore" for place in (".", *chance.choice([(), (), ("a",), ("a", "a/b", "é")]))
        ]
        for place in places:
            place.write_bytes(random_rules(chance))
        if different := walked(project) ^ left_by_git(run):
            found.append(([place.read_bytes() for place in places], different))
        for place in places:
            place.unlink()
    return found


def test_random_folders_have_the_files_that_git_shows(project: Path, git: Git) -> None:
    git("rm", "--quiet", "code.py")
    assert folders_that_differ(project, git, seed=54, number=150) == []


def test_a_pattern_with_many_stars_takes_no_time(repository: Path) -> None:
    name = "a" * 200
    (repository / ".gitignore").write_text(f"{'*a' * 60}b\n{'**/a/' * 40}b\n{'*a*/' * 30}**/b\n")
    (repository / name).touch()
    inner = repository.joinpath(*["a"] * 90)
    inner.mkdir(parents=True)
    (inner / name).touch()
    assert {name, str((inner / name).relative_to(repository))} <= walked(repository)

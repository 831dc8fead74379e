"""Counts what may only shrink: lines of code, and the structure that every change has to pay for.

A line of code is one that is not blank, a comment or a docstring. The package is everything that is maintained beside
it, too: scripts, examples, the pages' JavaScript.

`tests/ratchet.json` holds the limits, and `tests/test_ratchet.py` fails above them. After a change that makes one
smaller, `uv run python scripts/ratchet.py --lower` writes the new counts. Raising one takes a line in
docs/lab/choices.md.
"""

import ast
import json
import re
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src/vector_memory"
LIMITS = ROOT / "tests/ratchet.json"

EQUAL_LINES = 6
SQL = re.compile(r"\s*(select|insert|update|delete|with|create|alter|drop|lock|set|truncate)\b", re.IGNORECASE)
PARAMETER = re.compile(r"%\(\w+\)s|:\w+|%s|\?\d*")

PRIVATE = re.compile(r"(?<!\bself)(?<!\bcls)\s*\._(?!_)")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def sources(folder: Path) -> dict[Path, str]:
    """Return the text of each Python file below a folder."""
    return {path: path.read_text() for path in sorted(folder.rglob("*.py"))}


@cache
def trees(folder: Path) -> dict[Path, ast.Module]:
    """Return the syntax tree of each Python file below a folder."""
    return {path: ast.parse(text) for path, text in sources(folder).items()}


@cache
def nodes(folder: Path) -> list[ast.AST]:
    """Return every node of every file below a folder."""
    return [node for tree in trees(folder).values() for node in ast.walk(tree)]


def functions() -> list[Function]:
    """Return all functions and methods of the package."""
    return [node for node in nodes(PACKAGE) if isinstance(node, Function)]


def lines_of(node: Function) -> int:
    """Return how many lines a function has."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def protocol_methods() -> list[Function]:
    """Return the methods that protocols ask for."""
    protocols = [
        node
        for node in nodes(PACKAGE)
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)
    ]
    return [method for protocol in protocols for method in protocol.body if isinstance(method, Function)]


def only_forwards(function: Function) -> bool:
    """Tell whether all that a function does is to call another with its own parameters as they are."""
    statements = [
        one for one in function.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    if len(statements) != 1 or not isinstance(statements[0], ast.Return | ast.Expr):
        return False
    value = statements[0].value
    called = value.value if isinstance(value, ast.Await) else value
    if not isinstance(called, ast.Call):
        return False
    passed = [one.value if isinstance(one, ast.Starred) else one for one in called.args]
    passed += [one.value for one in called.keywords]
    own = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    is_of_another = bool(passed) or isinstance(called.func, ast.Attribute)
    return is_of_another and all(isinstance(one, ast.Name) and one.id in own for one in passed)


def names_in_two_modules() -> int:
    """Return how many names of functions and classes stand at the top of more than one module."""
    kinds = (*Function.__args__, ast.ClassDef)
    named = Counter(node.name for tree in trees(PACKAGE).values() for node in tree.body if isinstance(node, kinds))
    return sum(1 for count in named.values() if count > 1)


def places_of_equal_lines() -> int:
    """Return how many runs of six or more lines of code stand elsewhere in the package, too."""
    places: dict[tuple[str, ...], int] = defaultdict(int)
    windows = [
        list(zip(*(code[shift:] for shift in range(EQUAL_LINES)), strict=False))
        for code in map(code_lines, trees(PACKAGE))
    ]
    for window in (one for file in windows for one in file):
        places[window] += 1
    runs = 0
    for file in windows:
        repeated = [places[window] > 1 for window in file]
        runs += sum(here and not before for before, here in zip([False, *repeated], repeated, strict=False))
    return runs


def code_lines(path: Path) -> list[str]:
    """Return the lines of a file without indentation, blank lines, comments, imports and lone brackets."""
    stripped = [line.strip() for line in sources(PACKAGE)[path].splitlines()]
    return [line for line in stripped if re.search(r"\w", line) and not re.match(r"#|from |import |\w+,$", line)]


def statements(engine: Path) -> set[str]:
    """Return the SQL statements in a folder, with the names of parameters left out."""
    texts = set()
    for node in nodes(engine):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            texts.add("".join(one.value if isinstance(one, ast.Constant) else "{}" for one in node.values))
    found = (" ".join(PARAMETER.sub("?", text).lower().split()) for text in texts if SQL.match(text))
    return {text for text in found if len(text.split()) > 3}  # noqa: PLR2004 - words such as "with" in prose


DOCUMENTED = {"_asdict", "_exit", "_replace"}
"""Names of the standard library that begin like private ones, and are not."""


def private_attributes() -> tuple[int, int]:
    """Return how often tests use private attributes of something else, and in how many files."""
    used = {
        path: sum(
            isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
            and node.attr not in DOCUMENTED
            and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
            for node in ast.walk(ast.parse(text))
        )
        for path, text in sources(ROOT / "tests").items()
        if PRIVATE.search(text)  # most files have none, and parsing them would take half of the time
    }
    return sum(used.values()), sum(map(bool, used.values()))


def python_lines(text: str) -> int:
    """Count the lines of Python code."""
    code = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"}
    documentation: set[int] = set()  # docstrings, of attributes too
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                documentation.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            case ast.Constant(value=str()) | ast.JoinedStr() if node.lineno != node.end_lineno:
                code.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code - documentation)


@cache
def lines_of_code(path: Path) -> int:
    """Count the lines of code of a file in Python, JavaScript or SQL."""
    text = path.read_text()
    if path.suffix == ".py":
        return python_lines(text)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    comment = {".js": "//", ".sql": "--"}[path.suffix]
    return sum(bool(line.strip()) and not line.strip().startswith(comment) for line in text.splitlines())


def lines_and_files(*folders: str) -> tuple[int, int]:
    """Count the lines of code, and the files that hold them, below folders of the repository."""
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".js", ".sql"} and not {"vendor", "node_modules", ".venv"} & set(path.parts)
    ]
    return sum(map(lines_of_code, files)), len(files)


def rooms() -> dict[str, int]:
    """Return the lines of code and the files of each folder of the package."""
    counts = {}
    for folder in sorted(path for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))):
        lines, files = lines_and_files(str(folder.relative_to(ROOT)))
        counts |= {f"lines of {folder.name}/": lines, f"files of {folder.name}/": files}
    return counts


def counted() -> dict[str, int]:
    """Return all counts that need nothing but the files."""
    lines, files = lines_and_files("src", "packages", "scripts", "examples")
    attributes, files_with_them = private_attributes()
    one, other = statements(PACKAGE / "storage/sqlite"), statements(PACKAGE / "extras/postgres")
    asked = protocol_methods()
    return {
        "lines of code": lines,
        "files of code": files,
        "lines of code of the tests": lines_and_files("tests")[0],
        "lines of code of the benchmarks": lines_and_files("benchmarks")[0],
        "lines of the largest function": max(map(lines_of, functions())),
        "lines of the largest module": max(len(text.splitlines()) for text in sources(PACKAGE).values()),
        "protocol methods": len(asked),
        "functions that only forward": sum(only_forwards(one) for one in functions() if one not in asked),
        "names defined in two modules": names_in_two_modules(),
        "places of six or more equal lines": places_of_equal_lines(),
        "SQL statements": len(one | other),
        "SQL statements that exist for both engines": len(one & other),
        "private attributes used in tests": attributes,
        "tests that use private attributes": files_with_them,
    } | rooms()


def lower(counts: dict[str, int]) -> None:
    """Write the counts that are below their limits."""
    limits = json.loads(LIMITS.read_text())
    lowered = {name: min(count, limits.get(name, count)) for name, count in counts.items()}
    LIMITS.write_text(json.dumps(lowered, indent=2) + "\n")


if __name__ == "__main__":
    sys.path.append(str(ROOT / "tests"))
    from call_path import of_calls

    current = counted() | of_calls()
    for name, count in current.items():
        print(f"{count:>7,}  {name}")
    if "--lower" in sys.argv[1:]:
        lower(current)

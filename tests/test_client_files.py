"""Entries in the files of clients: what is added, changed and taken out, and that nothing else changes."""

import json
import re
import tomllib
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.cli.clients import json_file, toml_file
from vector_memory.errors import ConfigurationError

ENTRY = {"command": "/bin/vector-memory", "args": ["serve", "--profile", "core"]}
OTHER = {"command": "/bin/vector-memory", "args": ["serve"]}

JSON_FILES = {
    "no file": "",
    "no servers": "{}\n",
    "other keys": '{\n  "theme": "dark"\n}\n',
    "no server": '{\n  "servers": {}\n}',
    "an empty object over two lines": '{\n  "servers": {\n  }\n}\n',
    "another server": '{\n  "servers": {\n    "a": {"command": "x"}\n  },\n  "inputs": []\n}\n',
    "on one line": '{"servers": {"a": {"command": "x"}}, "b": [1, 2.5, null, true]}',
    "an empty object on one line": '{"servers":{}}',
    "tabs": '{\n\t"servers": {\n\t\t"a": {"command": "x"}\n\t}\n}\n',
    "line ends of Windows": '{\r\n  "servers": {\r\n    "a": {}\r\n  }\r\n}\r\n',
    "a byte order mark": '\ufeff{\n  "servers": {}\n}\n',
    "comments and trailing commas": (
        '// mine\n{\n  /* the "servers": {} */\n  "servers": { // here\n    "a": {\n      "command": "x", // "y"\n'
        "    }, // and this\n    // nothing more\n  },\n  // the end\n}\n"
    ),
    "a comment after the last server": '{\n  "servers": {\n    "a": {} // last, really: }\n  }\n}\n',
    "names that need escapes": '{"servers": {"\\u00e9 \\" // not a comment": {"env": {"K": "a\\\\"}}}}',
}

TOML_FILES = {
    "no file": "",
    "comments": '# mine\nmodel = "m" # fast\n',
    "no end of the last line": 'model = "m"',
    "another server": '[mcp_servers.a] # its own\ncommand = "x" # keep\nargs = [\n  "[mcp_servers.b]", # no table\n]\n'
    '\n# about profiles\n[profiles.p]\nmodel = "z"\n',
    "line ends of Windows": '[mcp_servers.a]\r\ncommand = "x"\r\n',
    "a table of servers": '[mcp_servers]\n[mcp_servers.a]\ncommand = """\n[x]\n"""\n',
}

CASES = [
    *(pytest.param(json_file, "servers", text, id=f"json, {name}") for name, text in JSON_FILES.items()),
    *(pytest.param(toml_file, "mcp_servers", text, id=f"toml, {name}") for name, text in TOML_FILES.items()),
]


def lines_of(text: str) -> list[str]:
    """Return the lines without what a further entry may change in them: commas, braces and spaces."""
    return [line for line in (re.sub(r"[{},\s\ufeff]", "", line) for line in text.split("\n")) if line]


@pytest.mark.parametrize(("form", "section", "text"), CASES)
def test_an_entry_is_added_beside_everything_that_is_there(form: ModuleType, section: str, text: str) -> None:
    added = form.put(text, section, "vm", ENTRY)
    assert form.entry(added, section, "vm") == ENTRY
    assert form.entry(added, section, "a") == form.entry(text, section, "a")
    kept = iter(lines_of(added))
    if "\n" in text.strip():
        assert all(line in kept for line in lines_of(text)), "every line is there, in the same order"
    assert ("\r\n" in added) == ("\r\n" in text)
    assert "\n" not in added.replace("\r\n", "") or "\r\n" not in text, "line ends are not mixed"


@pytest.mark.parametrize(("form", "section", "text"), CASES)
def test_removing_an_entry_leaves_every_other_line(form: ModuleType, section: str, text: str) -> None:
    removed = form.remove(form.put(text, section, "vm", ENTRY), section, "vm")
    assert form.entry(removed, section, "vm") is None
    left = [line for line in lines_of(removed) if f'"{section}":' not in line]
    assert left == [line for line in lines_of(text) if f'"{section}":' not in line]


@pytest.mark.parametrize(("form", "section", "text"), CASES)
def test_replacing_or_removing_an_entry_between_others_keeps_them(form: ModuleType, section: str, text: str) -> None:
    last = form.put(form.put(text, section, "vm", OTHER), section, "z", OTHER)
    replaced = form.put(last, section, "vm", ENTRY)
    assert form.entry(replaced, section, "vm") == ENTRY
    removed = form.remove(replaced, section, "vm")
    assert form.entry(removed, section, "vm") is None
    assert form.entry(removed, section, "z") == OTHER
    assert lines_of(form.remove(removed, section, "z")) == lines_of(
        form.remove(form.put(text, section, "z", OTHER), section, "z")
    )


@pytest.mark.parametrize(("form", "section", "text"), CASES)
def test_a_file_without_the_entry_stays_as_it_is(form: ModuleType, section: str, text: str) -> None:
    assert form.remove(text, section, "vm") == text


@pytest.mark.parametrize("text", ['{"theme": "dark"}', '{\n  "theme": "dark"\n}\n', '{\n  "servers": {}\n}\n'])
def test_a_section_stays_only_if_it_was_there(text: str) -> None:
    assert json_file.remove(json_file.put(text, "servers", "vm", ENTRY), "servers", "vm", text) == text


def test_json_looks_like_the_rest_of_the_file() -> None:
    assert json_file.put('{\n    "servers": {\n        "a": {}\n    }\n}\n', "servers", "vm", {"command": "x"}) == (
        '{\n    "servers": {\n        "a": {},\n        "vm": {\n            "command": "x"\n        }\n    }\n}\n'
    )


def test_a_table_keeps_its_comments_and_tables_below_it_when_it_is_changed() -> None:
    text = (
        '[mcp_servers.vm] # ours\n# where\ncommand = "old"\nargs = [\n  "serve", # why\n]\n'
        "startup_timeout_sec = 20 # slow disk\n"
        '[mcp_servers.vm.tools.store_report]\napproval_mode = "approve"\n\n# next\n[tui]\nx = 1\n'
    )
    old = toml_file.entry(text, "mcp_servers", "vm") or {}
    changed = toml_file.put(text, "mcp_servers", "vm", old | ENTRY)
    assert "[mcp_servers.vm] # ours\n# where\ncommand" in changed
    assert "startup_timeout_sec = 20 # slow disk\n[mcp_servers.vm.tools.store_report]\n" in changed
    assert tomllib.loads(changed)["mcp_servers"]["vm"] == old | ENTRY
    assert toml_file.remove(changed, "mcp_servers", "vm") == "# next\n[tui]\nx = 1\n"


BROKEN: list[tuple[ModuleType, str, str]] = [
    (json_file, '{\n  "servers": {\n    "a": 1\n    "b": 2\n  }\n}', "line 4, column 5: a comma or } is missing"),
    (json_file, '{\n  "servers": [\n', "line 3, column 1: a value is missing"),
    (json_file, "{\n  servers: {}\n}", "line 2, column 3: a name in double quotes is missing"),
    (json_file, '{"servers": tru}', "line 1, column 13: a value is missing or misspelled"),
    (json_file, '{"servers": {}, "servers": {}}', 'line 1, column 17: "servers" appears twice'),
    (json_file, '{"a": NaN}', "line 1, column 7: a value is missing or misspelled"),
    (json_file, '{"servers"}', "line 1, column 11: a colon is missing"),
    (json_file, '{"servers": "', "line 1, column 13: a string is not closed"),
    (json_file, '{"servers": []}', 'line 1, column 13: "servers" must be an object'),
    (json_file, "[1]", "line 1, column 1: the file must hold an object"),
    (json_file, "{} {}", "line 1, column 4: nothing may follow"),
    (json_file, "/* not closed", "line 1, column 1: a value is missing"),
    (json_file, '{"a": ' + "[" * 90_000, "nested too deeply"),
    (json_file, '{"a": ' + "9" * 5_000 + "}", "line 1, column 7: a value is missing or misspelled"),
    (toml_file, "a = " + "[" * 90_000, "nested too deeply"),
    (toml_file, "a = " + "9" * 5_000, "digits"),
    (toml_file, "servers = 5\n", '"servers" must be a table'),
    (toml_file, "a = 1\nb = = 2\n", "line 2"),
]


@pytest.mark.parametrize(("form", "text", "reason"), BROKEN, ids=range(len(BROKEN)))
def test_a_mistake_is_reported_with_its_line(form: ModuleType, text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        form.put(text, "servers", "vm", ENTRY)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ('mcp_servers = { vm = { command = "x" }, a = 1 } # mine\n', "mcp_servers = {  a = 1 } # mine\n"),
        ('[mcp_servers]\nvm = { command = "x" }\n# next\na = 1\n', "[mcp_servers]\n# next\na = 1\n"),
        ('[mcp_servers]\nvm.command = "x"\na = 1\n', "[mcp_servers]\na = 1\n"),
        ('[mcp_servers.vm]\nurl = "x"\n\n# next\n[tui]\na = 1\n', "# next\n[tui]\na = 1\n"),
        ('[mcp_servers.vm]\n[tui]\na = 1\n[mcp_servers.vm.env]\nB = "x"\n', "[tui]\na = 1\n"),
    ],
)
def test_a_table_that_is_written_in_another_way_is_edited_too(text: str, without: str) -> None:
    changed = toml_file.put(text, "mcp_servers", "vm", ENTRY)
    assert toml_file.entry(changed, "mcp_servers", "vm") == ENTRY
    assert toml_file.remove(text, "mcp_servers", "vm") == without
    left = tomllib.loads(toml_file.remove(changed, "mcp_servers", "vm"))
    assert {key: value for key, value in left.items() if value} == tomllib.loads(without)


@pytest.mark.parametrize(("form", "text"), [(json_file, "{"), (toml_file, "=")])
def test_what_to_add_by_hand_is_a_file_with_nothing_else(form: ModuleType, text: str) -> None:
    read: Any = {json_file: json.loads, toml_file: tomllib.loads}[form]
    _, _, snippet = form.by_hand(text, "servers", "vm", ENTRY).partition("\n\n")
    assert read(snippet) == {"servers": {"vm": ENTRY}}


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(
    others=st.dictionaries(NAMES, VALUES, max_size=3),
    servers=st.dictionaries(NAMES, VALUES, max_size=3),
    indent=st.sampled_from([None, 2, 4, "\t"]),
    as_ascii=st.booleans(),
)
def test_adding_and_removing_an_entry_restores_any_json_file(
    others: dict[str, Any], servers: dict[str, Any], indent: int | str | None, as_ascii: bool
) -> None:
    text = json.dumps({**others, "servers": servers}, indent=indent, ensure_ascii=as_ascii)
    added = json_file.put(text, "servers", "vector-memory", ENTRY)
    assert json.loads(added) == {**others, "servers": {**servers, "vector-memory": ENTRY}}
    assert json_file.remove(added, "servers", "vector-memory", text) == text

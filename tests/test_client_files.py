"""Entries and hooks in the files of clients: everything else in them stays as it was."""

import json
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.clients.client import InstallScope
from vector_memory.clients.editing import hooks, json_file, toml_file
from vector_memory.clients.editing.hooks import HookPosition
from vector_memory.clients.editing.planning import FORMATS, ClientConfiguration, explained, server_entry
from vector_memory.clients.registry import CLIENTS
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
    "numbers that equal nothing, not even themselves": "a = nan\nb = [-nan, { c = +nan }]\n",
    "a table of servers": '[mcp_servers]\n[mcp_servers.a]\ncommand = """\n[x]\n"""\n',
}

YAML_FILES = {
    "no file": "",
    "other keys": "# mine\nmodel: m # fast\n",
    "another server": "servers:\n  a: # its own\n    command: x # keep\n\n# about more\nmore: [1, 2]\n",
    "four spaces": "servers:\n    a:\n        command: x\n        args:\n            - b\n",
    "a number that does not equal itself": "a: .nan\n",
    "an empty section": "servers: {}\nmore: 1\n",
    "no value": "servers:\nmore: 1\n",
    "no end of the last line": "servers:\n  a:\n    command: x",
    "line ends of Windows": "servers:\r\n  a:\r\n    command: x\r\n# mine\r\n",
    "a text of several lines": "servers:\n  a:\n    text: |\n      b:\n        c\n\nmore: 1\n",
}

CASES = [
    *(pytest.param(FORMATS["yaml"], "servers", text, id=f"yaml, {name}") for name, text in YAML_FILES.items()),
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
    heading = re.compile(rf'.*"{section}":|{section}:')
    assert [line for line in lines_of(removed) if not heading.match(line)] == [
        line for line in lines_of(text) if not heading.match(line)
    ]


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
    (FORMATS["yaml"], "a: 1\nb: [\n", "line 3"),
    (FORMATS["yaml"], "- a\n", "must hold a mapping"),
    (FORMATS["yaml"], "servers: [a]\n", '"servers" must be a mapping'),
    (FORMATS["yaml list"], "servers: {a: 1}\n", '"servers" must be a list'),
    (FORMATS["yaml"], "servers: {a: {}}\n", "because of the way it is written"),
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


@pytest.mark.parametrize(("name", "text"), [("cursor", "{"), ("codex", "="), ("goose", "[")])
def test_what_to_add_by_hand_is_a_file_with_nothing_else(name: str, text: str, tmp_path: Path) -> None:
    part = server_entry(ClientConfiguration(CLIENTS[name], InstallScope.USER, tmp_path))
    with pytest.raises(ConfigurationError) as raised, explained(part, ENTRY):
        part.found(text)
    assert part.found(str(raised.value).partition("file:\n\n")[2]) == ENTRY


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


OURS = hooks.handlers_for("vm")
THEIRS = {"type": "command", "command": 'echo "{}" # , ]', "timeout": 3}

SETTINGS = {
    "no file": "",
    "no hooks": '{\n  "theme": "dark"\n}\n',
    "no end of the last line": '{\n  "theme": "dark"\n}',
    "an empty object": "{}",
    "empty hooks": '{\n  "hooks": {}\n}\n',
    "an empty list": '{\n  "hooks": {\n    "Stop": []\n  }\n}\n',
    "hooks of the user": json.dumps({"hooks": {"Stop": [{"hooks": [THEIRS]}], "Other": [1]}, "a": 1}, indent=2) + "\n",
    "the same hooks of another server": json.dumps(
        {"hooks": hooks.added({}, "other", hooks.handlers_for("other"))["hooks"]}, indent=4
    ),
    "on one line": json.dumps({"hooks": {"Stop": [{"matcher": "", "hooks": [THEIRS]}]}}),
    "odd spaces": '{ "hooks" :{\n"Stop":[ {"hooks":[\n   {"type":"command" ,"command":"x"}]} ]\n\n} ,"b":[1,2]\t}\n\n',
    "line ends of Windows": '{\r\n\t"hooks": {\r\n\t\t"Stop": [\r\n\t\t\t{"hooks": []}\r\n\t\t]\r\n\t}\r\n}\r\n',
    "a byte order mark": '\ufeff{"hooks": {"PostCompact": []}}',
}


def put(text: str, handlers: hooks.Handlers = OURS) -> str:
    return json_file.rewritten(text, hooks.added(json_file.content_of(text), "vm", handlers))


def taken_out(text: str, original: str) -> str:
    before = json_file.content_of(original)
    return json_file.rewritten(text, hooks.removed(json_file.content_of(text), "vm", before))


@pytest.mark.parametrize("text", SETTINGS.values(), ids=SETTINGS)
def test_hooks_are_added_beside_everything_that_is_there(text: str) -> None:
    added, before = json_file.content_of(put(text)), json_file.content_of(text)
    assert hooks.found(added, "vm") == OURS
    assert {key: value for key, value in added.items() if key != "hooks"} == {
        key: value for key, value in before.items() if key != "hooks"
    }
    for event, groups in before.get("hooks", {}).items():
        assert added["hooks"][event][: len(groups)] == groups
    assert put(put(text)) == put(text), "once only"


TIDY = {name: text for name, text in SETTINGS.items() if name not in {"no file", "odd spaces"}}


@pytest.mark.parametrize("text", TIDY.values(), ids=TIDY)
def test_removing_hooks_restores_the_file(text: str) -> None:
    assert taken_out(put(text), text) == text


@pytest.mark.parametrize("text", SETTINGS.values(), ids=SETTINGS)
def test_the_users_later_additions_stay_when_hooks_are_removed(text: str) -> None:
    changed = json_file.content_of(put(text))
    changed["later"] = {"x": [1, {"y": None}]}
    changed["hooks"]["Stop"].append({"hooks": [THEIRS]})
    changed["hooks"]["UserPromptSubmit"][-1]["hooks"].append(THEIRS)
    left = json_file.content_of(taken_out(json_file.rewritten(put(text), changed), text))
    assert hooks.found(left, "vm") == {}
    assert left["later"] == {"x": [1, {"y": None}]}
    assert left["hooks"]["Stop"][-1] == {"hooks": [THEIRS]}
    assert left["hooks"]["UserPromptSubmit"][-1] == {"hooks": [THEIRS]}


def test_a_changed_timeout_stays_and_a_changed_input_does_not() -> None:
    slow = OURS["Stop"] | {"timeout": 60, "statusMessage": "Storing", "input": {}}
    merged = hooks.merged_hooks({"Stop": slow}, OURS)
    assert merged == OURS | {"Stop": OURS["Stop"] | {"timeout": 60, "statusMessage": "Storing"}}
    assert hooks.found(json_file.content_of(put(put("", {"Stop": slow}), merged)), "vm") == merged


@pytest.mark.parametrize(
    ("text", "reason"),
    [('{"hooks": []}', '"hooks" must be an object'), ('{"hooks": {"Stop": {}}}', '"hooks.Stop" must')],
)
def test_hooks_of_an_unknown_form_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        put(text)


@pytest.mark.parametrize(
    "text", ['// mine\n{"hooks": {}}', '{"hooks": {},}', '{"hooks": {"Stop": [1,]}}'], ids=["comment", "object", "list"]
)
def test_comments_are_reported_for_a_client_that_does_not_read_them(text: str) -> None:
    assert put(text), "it could be edited"
    with pytest.raises(ConfigurationError, match="this client does not read files with comments"):
        json_file.require_plain(text)


HOOK_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.dictionaries(
    st.sampled_from(["Stop", "PostCompact", "Other"]), st.lists(HOOK_VALUES, max_size=3), max_size=3
)


@given(
    others=st.dictionaries(st.text("ab"), HOOK_VALUES, max_size=3),
    events=EVENTS,
    indent=st.sampled_from([None, 2, "\t"]),
)
def test_adding_and_removing_hooks_restores_any_settings(
    others: dict[str, Any], events: dict[str, Any], indent: int | str | None
) -> None:
    text = json.dumps({**others, "hooks": events}, indent=indent)
    assert taken_out(put(text), text) == text


@given(
    before=st.dictionaries(st.text("ab"), HOOK_VALUES),
    after=st.dictionaries(st.text("ab"), HOOK_VALUES),
    indent=st.sampled_from([None, 2]),
)
def test_any_content_can_be_rewritten_as_any_other(
    before: dict[str, Any], after: dict[str, Any], indent: int | None
) -> None:
    assert json.loads(json_file.rewritten(json.dumps(before, indent=indent), after)) == after


TRUSTED = """\
model = "m"
[mcp_servers.vm]
command = "x"
{more}
[hooks.state]

[hooks.state."/home/u/.codex/hooks.json:post_compact:0:0"]
trusted_hash = "sha256:1"

[hooks.state."/home/u/.codex/hooks.json:user_prompt_submit:1:0"]
trusted_hash = "sha256:2"
"""
PLACES = [HookPosition("PostCompact", 0, 0), HookPosition("UserPromptSubmit", 1, 0)]


def test_what_codex_notes_about_hooks_goes_with_them(tmp_path: Any) -> None:
    before = TRUSTED.format(more="").partition("\n[hooks.state]")[0]
    text = TRUSTED.format(more="").replace("/home/u/.codex", str(tmp_path))
    assert hooks.without_trust(text, tmp_path / "hooks.json", PLACES) == before
    (tmp_path / "link").symlink_to(tmp_path)
    assert hooks.without_trust(text, tmp_path / "link" / "hooks.json", PLACES) == before, "Codex notes real paths"


def test_what_codex_notes_about_other_hooks_stays(tmp_path: Any) -> None:
    text = TRUSTED.format(more="")
    assert hooks.without_trust(text, tmp_path / "hooks.json", PLACES) == text
    left = hooks.without_trust(text, tmp_path.parent / "x" / ".." / "hooks.json", PLACES[:1])
    assert left == text
    mine = text.replace("/home/u/.codex", str(tmp_path))
    left = hooks.without_trust(mine, tmp_path / "hooks.json", PLACES[:1])
    assert "user_prompt_submit" in left
    assert "post_compact" not in left
    assert "[hooks.state]\n" in left


@pytest.mark.parametrize("text", ["", 'model = "m"\n', "a = = 1\n", "hooks = 1\n"])
def test_a_configuration_in_which_codex_notes_nothing_stays(text: str, tmp_path: Any) -> None:
    assert hooks.without_trust(text, tmp_path / "hooks.json", PLACES) == text


def test_an_entry_of_a_list_is_found_by_its_name_and_the_others_stay() -> None:
    text = "servers:\n- name: a\n  command: x # keep\n# next\n- name: vm\n  command: old\n- name: b\nmore: 1\n"
    form = FORMATS["yaml list"]
    changed = form.put(text, "servers", "vm", {"name": "vm", **ENTRY})
    assert [one["name"] for one in yaml.safe_load(changed)["servers"]] == ["a", "b", "vm"]
    assert changed.startswith("servers:\n- name: a\n  command: x # keep\n# next\n- name: b\n- name: vm\n")
    assert form.remove(changed, "servers", "vm") == text.replace("- name: vm\n  command: old\n", "")

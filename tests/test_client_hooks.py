"""Hooks in the settings of clients: ours are added beside those of the user, and only ours are taken out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.cli.clients import hooks, json_file
from vector_memory.cli.clients.hooks import HookPosition
from vector_memory.errors import ConfigurationError

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
    assert hooks.places(json_file.content_of(put(put("", {"Stop": slow}), merged)), "vm") == [
        HookPosition(event, 0, 0) for event in ("Stop", "UserPromptSubmit", "SubagentStop", "PostCompact")
    ]


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


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.dictionaries(st.sampled_from(["Stop", "PostCompact", "Other"]), st.lists(VALUES, max_size=3), max_size=3)


@given(
    others=st.dictionaries(st.text("ab"), VALUES, max_size=3), events=EVENTS, indent=st.sampled_from([None, 2, "\t"])
)
def test_adding_and_removing_hooks_restores_any_settings(
    others: dict[str, Any], events: dict[str, Any], indent: int | str | None
) -> None:
    text = json.dumps({**others, "hooks": events}, indent=indent)
    assert taken_out(put(text), text) == text


@given(
    before=st.dictionaries(st.text("ab"), VALUES),
    after=st.dictionaries(st.text("ab"), VALUES),
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

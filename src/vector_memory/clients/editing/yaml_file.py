"""Edits one entry of a YAML file, in a mapping or in a list of named ones; every other character stays.

The parser says where values are, and the text is changed there. What cannot be changed in that way is refused.
"""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from vector_memory.errors import ConfigurationError


class YamlFile:
    """A file whose section is a mapping, or a list of entries with a `name`."""

    def __init__(self, *, is_list: bool) -> None:
        self._is_list = is_list

    def entry(self, text: str, section: str, name: str) -> dict[str, Any] | None:
        """Return the entry of this name. Raises ConfigurationError for text that is not such a file."""
        found = self._entries(_yaml_content(text), section).get(name)
        return dict(found) if isinstance(found, dict) else None

    def put(self, text: str, section: str, name: str, value: Mapping[str, Any]) -> str:
        """Return the text with this entry added, or in place of the one that is there."""
        if self.entry(text, section, name) == dict(value):
            return text
        left = self.remove(text, section, name).replace("\r\n", "\n")
        content = _yaml_content(left)
        held = self._entries(content, section)
        lines = self._rendered(name, dict(value))
        if held:
            node = _section_of(left, section)
            indent = node.start_mark.column if self._is_list else node.value[0][0].start_mark.column
            end = left.find("\n", _last_of(node))
            place = end if end >= 0 else len(left)
            changed = f"{left[:place]}{_indented(lines, indent)}{left[place:] or chr(10)}"
        elif section in content:  # it is empty, such as []
            node = _section_of(left, section)
            before, after = left[: node.start_mark.index].rstrip(), left[node.end_mark.index :]
            changed = f"{before}{_indented(lines, 2)}{after or chr(10)}"
        else:
            gap = "" if not left or left.endswith("\n") else "\n"
            changed = f"{left}{gap}{section}:{_indented(lines, 2)}\n"
        self._check(changed, content, section, held | {name: dict(value)})
        return changed.replace("\n", "\r\n") if "\r\n" in text else changed

    def remove(self, text: str, section: str, name: str, _original: str = "") -> str:
        """Return the text without this entry, and without a section that would be empty."""
        if self.entry(text, section, name) is None:
            return text
        has_returns, text = "\r\n" in text, text.replace("\r\n", "\n")
        content = _yaml_content(text)
        held = self._entries(content, section)
        root, node = _composed(text), _section_of(text, section)
        if len(held) == 1:
            key = next(key for key, _ in root.value if key.value == section)
            start, end = key.start_mark.index, node.end_mark.index
        else:
            place = list(held).index(name)
            nodes = node.value if self._is_list else [key for key, _ in node.value]
            start = text.rfind("\n", 0, nodes[place].start_mark.index) + 1
            is_last = place + 1 == len(nodes)
            end = node.end_mark.index if is_last else text.rfind("\n", 0, nodes[place + 1].start_mark.index) + 1
        removed = text[start:end]
        remarks = re.search(r"(?:^[ \t]*(?:#.*)?\n)*\Z", removed, re.MULTILINE)
        changed = text[:start] + (remarks[0] if remarks else "") + text[end:]
        self._check(changed, content, section, {key: one for key, one in held.items() if key != name})
        return changed.replace("\n", "\r\n") if has_returns else changed

    def _rendered(self, name: str, value: dict[str, Any]) -> list[str]:
        shown: Any = [value] if self._is_list else {name: value}
        return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=10_000).splitlines()

    def _entries(self, content: Mapping[str, Any], section: str) -> dict[str, Any]:
        held = content.get(section) or ([] if self._is_list else {})
        if not isinstance(held, list if self._is_list else dict):
            raise ConfigurationError(f'"{section}" must be a {"list" if self._is_list else "mapping"}')
        if isinstance(held, dict):
            return held
        return {
            str(one.get("name", place)) if isinstance(one, dict) else str(place): one for place, one in enumerate(held)
        }

    def _check(self, changed: str, before: Mapping[str, Any], section: str, held: Mapping[str, Any]) -> None:
        """Raise ConfigurationError if the text has not this section, and everything else as before."""
        expected: Any = list(held.values()) if self._is_list else held
        wanted = {key: one for key, one in before.items() if key != section} | ({section: expected} if held else {})
        try:
            is_as_wanted = _yaml_content(changed) == wanted
        except ConfigurationError:
            is_as_wanted = False
        if not is_as_wanted:
            raise ConfigurationError(
                "the entry for this server cannot be edited alone, because of the way it is written"
            )


def _yaml_content(text: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text) or {}
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigurationError(" ".join(str(error).split()) or "it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ConfigurationError("the file must hold a mapping")
    return content


def _indented(lines: list[str], indent: int) -> str:
    return "".join(f"\n{' ' * indent}{line}" for line in lines)


def _last_of(node: Any) -> int:
    """Return where the last value in a node ends: blank lines and comments may follow before the node does."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        node = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
    return max(int(node.end_mark.index) - 1, 0)


def _composed(text: str) -> Any:
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _section_of(text: str, section: str) -> Any:
    return next(value for key, value in _composed(text).value if key.value == section)

"""What Codex notes in its configuration when its user trusts hooks: a table for each, named by its place."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from vector_memory.cli.clients import toml_file
from vector_memory.cli.clients.hooks import Place
from vector_memory.errors import ConfigurationError

TABLE = ("hooks", "state")


def without(text: str, hooks_file: Path, places: Sequence[Place]) -> str:
    """Return the configuration without what it notes about the hooks at these places.

    What cannot be taken out alone stays: Codex asks again when another hook has this place.
    """
    ends = {f":{_label(event)}:{group}:{number}" for event, group, number in places}
    noted = _noted(text)
    with suppress(ConfigurationError):
        for key in noted or ():
            file, *_ = key.rsplit(":", 3)
            if key.removeprefix(file) in ends and Path(file).resolve() == hooks_file.resolve():
                text = toml_file.without_table(text, *TABLE, key)
        if noted and not _noted(text):
            text = toml_file.without_table(text, *TABLE)
    return text


def _noted(text: str) -> dict[str, Any] | None:
    """Return the tables; None for a configuration without them, or with mistakes: Codex does not read that either."""
    try:
        return toml_file.entry(text, *TABLE)
    except ConfigurationError:
        return None


def _label(event: str) -> str:
    return re.sub(r"\B([A-Z])", r"_\1", event).lower()

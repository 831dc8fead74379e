"""Tells which lines of a transcript of Claude Code belong to the conversation as it went on.

Each line names the one before it. A user who goes back to an earlier point and writes another prompt there begins a
branch; the lines of the branch that was left stay in the file.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Branches:
    """The lines of a conversation, by their ids, in the order of the file."""

    _order: list[str] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)
    _before: list[str | None] = field(default_factory=list)
    _prompts: set[str] = field(default_factory=set)
    _first: set[str] = field(default_factory=set)
    _is_linked: bool = False

    def add(self, line_id: str, before: str | None, *, is_prompt: bool, is_first: bool) -> None:
        """Add a line. `before`: the id of the one before it. `is_first`: it says that there is none."""
        if line_id in self._places:
            return
        self._is_linked |= before in self._places
        self._places[line_id] = len(self._order)
        self._order.append(line_id)
        self._before.append(before)
        if is_prompt:
            self._prompts.add(line_id)
            if is_first:
                self._first.add(line_id)

    def left(self) -> set[str]:
        """Return the ids of the lines that the user went back from.

        Only a prompt begins a branch: other lines that nothing follows are those of tools that ran at the same time.
        """
        kept = self._kept()
        left: set[str] = set()
        for place, line_id in enumerate(self._order):
            if place not in kept:
                before = self._place_before(place)
                is_after_left = before is not None and self._order[before] in left
                if is_after_left or line_id in self._prompts:
                    left.add(line_id)
        return left

    def _kept(self) -> set[int]:
        """Return the places of the last line and of those before it."""
        kept: set[int] = set()
        place = len(self._order) - 1 if self._order else None
        while place is not None:
            kept.add(place)
            place = self._place_before(place)
        return kept

    def _place_before(self, place: int) -> int | None:
        """Return the place of the line before a line: the one that it names, or else the one above it."""
        if self._is_linked and self._order[place] in self._first:
            return None
        before = self._places.get(self._before[place] or "")
        if before is not None and before < place:
            return before
        return place - 1 if place else None

"""Keeps files with paths of this machine out of a project's repository."""

NAME = ".gitignore"
REMARK = "# paths of this machine (vector-memory install)"


def ignored(text: str | None, line: str) -> str | None:
    """Return the rules with this line added, unless it is there."""
    lines = (text or "").split("\n")
    if line in lines:
        return text
    end = len(lines) - 1 if lines[-1] == "" else len(lines)
    return "\n".join([*lines[:end], REMARK, line, *(lines[end:] or ([] if text else [""]))])


def not_ignored(text: str | None, line: str) -> str | None:
    """Return the rules without this line, if `ignored` added it; None if nothing is left."""
    lines = (text or "").split("\n")
    for number in range(1, len(lines)):
        if lines[number - 1 : number + 1] == [REMARK, line]:
            return "\n".join([*lines[: number - 1], *lines[number + 1 :]]) or None
    return text

"""Parses flags and environment variables, and explains errors in one sentence."""

import os
import re
import sys
from collections.abc import Sequence
from inspect import cleandoc
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import pydantic
from cyclopts import (
    App,
    Argument,
    ArgumentCollection,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    Token,
    UnknownOptionError,
    UnusedCliTokensError,
    ValidationError,
)

from vector_memory.domain.text import near
from vector_memory.settings import (
    ALTERNATIVES,
    SPECIFIED,
    FileLocations,
    HttpOptions,
    ServerLocations,
    ServerOptions,
    Settings,
    has_password,
)

PREFIX = "VECTOR_MEMORY_"
ALIASES = {name: name.upper() for name in SPECIFIED} | {
    name: f"CWE_{name.upper()}" for name in FileLocations.model_fields
}
"""The variable names of the specification; names with the prefix take precedence."""

LISTS = {"export_dir"}
"""Flags that can be repeated; their variables hold several values as PATH does."""

MODELS = (Settings, ServerOptions, ServerLocations, FileLocations, HttpOptions)
"""The settings that have variables."""

SWITCHES = {
    f"--{name.replace('_', '-')}"
    for model in MODELS
    for name, field in model.model_fields.items()
    if field.annotation is bool
}

SEEN_BY_OTHERS = (
    "Every user of this machine can see the password in the database URL in the list of processes: keep it in "
    "~/.pgpass, in the variable PGPASSWORD, or in a file that --database-password-file names."
)

NEVER_SUGGESTED = {
    *("cleanup", "delete", "edit", "reembed", "restore", "supersede", "uninstall"),
    *("--drop", "--overwrite", "--sync", "--watch", "--yes"),
}
"""Commands and flags that replace or delete something."""

DEFAULT_COMMAND = "serve"
WITHIN_PARAGRAPH = re.compile(r"(?<=\S)\n(?=\S)")
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.0)?")
OF_ALL = ("--help", "-h", "--version")
"""Flags of the program itself; other flags without a command belong to the default command."""


class UsageError(Exception):
    """A flag or environment variable is invalid; the message is for the user."""


def run(app: App, words: Sequence[str]) -> None:
    """Run a command of `app`. Raises UsageError for invalid arguments."""
    if not words or (words[0].startswith("-") and words[0] not in OF_ALL):
        words = [DEFAULT_COMMAND, *words]
    if words[0] not in (*app, *OF_ALL):
        raise UsageError(_unknown_command(words[0], list(app)))
    if words[0] in app and {"--help", "-h"}.intersection(words):
        command = app[words[0]]
        command.help = flowing(command.help)
    try:
        app(_joined_switches(words), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise UsageError(_explained(error)) from error


def flowing(text: str) -> str:
    """Return the help of a command without line breaks in its paragraphs, which would be wrapped once more."""
    return WITHIN_PARAGRAPH.sub(" ", cleandoc(text))


def fill_from_environment(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Set the parameters without a flag from their environment variables.

    An empty flag is refused: a script with an empty variable would otherwise use the wrong database. An invalid
    variable of a setting is ignored with a warning: many programs set LOG_LEVEL, and a memory that does not start is
    worse. An invalid location or toolset is an error: a guess could hide or expose memories.
    """
    for argument in arguments:
        if argument.hint is not bool and any(token.value == "" for token in argument.tokens):
            advice = "give it a value or omit it" if argument.name.startswith("-") else "give it a value"
            raise UsageError(f"{argument.name} is empty: {advice}.")
        for given in argument.tokens if _type(argument.hint) is int else ():
            if not WHOLE_NUMBER.fullmatch(given.value):  # cyclopts would round 0.4 to 0
                raise UsageError(_refused(argument, given))
    known = _by_name(arguments)
    flagged = {name for name, argument in known.items() if argument.tokens}
    # A flag for the location overrides all variables for the location.
    if not flagged.isdisjoint(ALTERNATIVES):
        flagged |= set(ALTERNATIVES)
    if any(has_password(token.value) for argument in arguments for token in argument.tokens):
        sys.stderr.write(f"vector-memory: {SEEN_BY_OTHERS}\n")
    tokens = {name: token for name in known if name not in flagged and (token := _from_environment(name))}
    for name in unusable({name: token.value for name, token in tokens.items() if name in Settings.model_fields}):
        token = tokens.pop(name)
        sys.stderr.write(f"vector-memory: {_given(token)}; accepted: {accepted(name)}. Using the default instead.\n")
    for name, token in tokens.items():
        values = token.value.split(os.pathsep) if name in LISTS else [token.value]
        for place, value in enumerate(filter(None, values)):
            known[name].append(Token(keyword=token.keyword, value=value, source=token.source, index=place))


def _from_environment(name: str) -> Token | None:
    """Return the value of a parameter's variable. An empty variable counts as unset."""
    if not any(name in model.model_fields for model in MODELS):
        return None
    variables = [f"{PREFIX}{name.upper()}", *filter(None, [ALIASES.get(name)])]
    return next(
        (Token(keyword=key, value=os.environ[key], source="env") for key in variables if os.environ.get(key)), None
    )


def _by_name(arguments: Sequence[Argument]) -> dict[str, Argument]:
    return {argument.field_info.name: argument for argument in arguments}


def _joined_switches(words: Sequence[str]) -> list[str]:
    """Accept `--switch false` and `--no-switch` for `--switch=false`.

    To cyclopts `--no-switch` would be a separate flag, which makes the help hard to read.
    """
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in SWITCHES and not word.startswith("-"):
            joined[-1] += f"={word}"
        elif word.startswith("--no-") and (switch := f"--{word.removeprefix('--no-')}") in SWITCHES:
            joined.append(f"{switch}=false")
        else:
            joined.append(word)
    return joined


def _unknown_command(word: str, commands: Sequence[str]) -> str:
    # Not left to cyclopts, which imports all commands to find similar names.
    meant = "".join(f' Did you mean "{command}"?' for command in _meant(word, commands))
    return f'Unknown command "{word}".{meant} Run `vector-memory --help` to list the commands.'


def _meant(word: str, known: Sequence[str]) -> list[str]:
    """Return a similar word, unless it replaces or deletes something: a typo should not lead to that."""
    return [one for one in near(word, known) if len(one) > len("-y") and one not in NEVER_SUGGESTED][:1]


def _explained(error: CycloptsError) -> str:
    """Return a message that says what is wrong and what is accepted."""
    cause = error.__cause__
    match error:
        case ValidationError(argument=Argument() as settings) if isinstance(cause, pydantic.ValidationError):
            return _refused_settings(settings, cause)
        case CoercionError(argument=Argument() as argument, token=Token() as token):
            return _refused(argument, token)
        case MissingArgumentError(argument=Argument() as argument):
            return _missing(argument, error)
        case UnusedCliTokensError(unused_tokens=[word, *_]):
            return f'Unexpected argument "{word}": see `{_help_of(error)}`.'
        case UnknownOptionError(token=Token() as token, argument_collection=ArgumentCollection() as arguments):
            flag = token.keyword or token.value
            known = [name for argument in arguments for name in argument.names]
            meant = "".join(f" Did you mean {name}?" for name in _meant(flag, known))
            return f"Unknown option: {flag}.{meant} Run `{_help_of(error)}` to list the flags."
        case _:
            return str(error)


def _missing(argument: Argument, error: CycloptsError) -> str:
    if argument.name.startswith("-"):
        return f"{argument.name} needs a value: {_accepted_by(argument)}."
    words = " ".join(["vector-memory", *(error.command_chain or ()), argument.name])
    choices = f" ({_accepted_by(argument)})" if argument.get_choices() else ""
    return f"{argument.name}{choices} is required: `{words}`. See `{_help_of(error)}`."


def _help_of(error: CycloptsError) -> str:
    return " ".join(["vector-memory", *(error.command_chain or ()), "--help"])


def _refused_settings(settings: Argument, cause: pydantic.ValidationError) -> str:
    first = cause.errors()[0]
    reason = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:  # two settings contradict each other: the message names both
        return f"{reason}."
    argument = _by_name(settings.children)[str(first["loc"][0])]
    if first["type"] == "value_error":
        return f"{_given(argument.tokens[0])}: {reason}."
    return _refused(argument, argument.tokens[0])


def _given(token: Token) -> str:
    return f'{token.keyword} is "{token.value}"'


def _refused(argument: Argument, token: Token) -> str:
    given = _given(token) if token.keyword else f'{argument.name} is "{token.value}"'
    return f"{given}; accepted: {_accepted_by(argument)}."


def _accepted_by(argument: Argument) -> str:
    name = argument.field_info.name
    if name in Settings.model_fields | ServerOptions.model_fields | HttpOptions.model_fields:
        return accepted(name)
    if choices := argument.get_choices():
        *others, last = choices
        return f"{', '.join(others)} or {last}"
    types = {bool: "true or false", int: "an integer", float: "a number", Path: "a path"}
    return types.get(_type(argument.hint), "text")


def _type(hint: Any) -> Any:
    """Return the type of a flag's value, if it is given."""
    return next((arm for arm in get_args(hint) if arm is not NoneType), hint) if NoneType in get_args(hint) else hint


def accepted(name: str) -> str:
    """Describe the values that the setting `name` accepts."""
    model = next(model for model in (Settings, ServerOptions, HttpOptions) if name in model.model_fields)
    schema = model.model_json_schema()
    match _resolved(schema["properties"][name], schema):
        case {"enum": [*others, last]}:
            return f"{', '.join(others)} or {last}"
        case {"type": "boolean"}:
            return "true or false (1 or 0, yes or no)"
        case {"type": "integer" | "number"} as numbers:
            return _accepted_numbers(numbers)
        case {"anyOf": _}:
            return "a path"
        case _:
            return "a name"


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a reference points to, or the schema itself."""
    reference = schema.get("$ref", "").removeprefix("#/$defs/")
    resolved: dict[str, Any] = root["$defs"][reference] if reference else schema
    return resolved


def _accepted_numbers(schema: dict[str, Any]) -> str:
    noun = "an integer" if schema["type"] == "integer" else "a number"
    if "maximum" in schema:
        return f"{noun} from {schema['minimum']} to {schema['maximum']}"
    return f"{noun}, {schema['minimum']} or more"


def unusable(values: dict[str, str]) -> set[str]:
    """Return the names of the settings whose values, given as text, are invalid."""
    try:
        Settings.model_validate(values)
    except pydantic.ValidationError as error:
        found: set[str] = set()
        for detail in error.errors(include_url=False, include_input=False):
            found.update(map(str, detail["loc"][:1] or detail["ctx"]["names"]))
        found = found & values.keys() or set(values)
        return found | unusable({name: value for name, value in values.items() if name not in found})
    return set()

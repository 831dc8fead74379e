"""The command that lists embedding models."""

import importlib.util
from typing import TYPE_CHECKING, Any

from vector_memory.cli.flags import DEFAULTS, AsJson, ModelSettingsFlags
from vector_memory.cli.terminal import console, print_json

if TYPE_CHECKING:
    from vector_memory.embedding.known import Known
    from vector_memory.settings import Settings

HOW_TO_USE = (
    "Correct the name, begin the path of a folder with /, ./, ../ or ~, or install the extra sentence-transformers, "
    "which runs models of other families."
)


def models(*, as_json: AsJson = False, settings: ModelSettingsFlags = DEFAULTS) -> None:
    """List the embedding models: the known ones, which of them are installed, and the one in use.

    Set --embedding-model to another one and run `vector-memory reembed` to change over.
    """
    from vector_memory.embedding.known import KNOWN, known

    chosen = known(settings.embedding_model)
    rows = [_row_of_known(model, settings, in_use=model is chosen) for model in KNOWN.values()]
    if chosen is None:
        rows.append(_row_of_own(settings))
    if as_json:
        print_json({"success": True, "models": rows})
    else:
        _print(rows)


def _row_of_known(model: "Known", settings: "Settings", *, in_use: bool) -> dict[str, Any]:
    from vector_memory.embedding.weights import find_weights, how_to_install, place_of
    from vector_memory.errors import EmbeddingUnavailableError

    folder = settings.embedding_model_path if in_use else None
    advice = how_to_install(model)
    try:
        place = find_weights(folder, model).source if folder else place_of(model)
    except EmbeddingUnavailableError as error:
        place, advice = None, str(error)
    return {
        "name": model.description.name,
        "in_use": in_use,
        "installed_in": place,
        "languages": list(model.description.languages),
        "about": model.about,
        "how_to_install": advice,
    }


def _row_of_own(settings: "Settings") -> dict[str, Any]:
    """Return the row of a model that is not known: in a folder, of this server, or of sentence-transformers."""
    from vector_memory.embedding.model import TOY_MODEL
    from vector_memory.embedding.weights import find_model

    own = find_model(settings.embedding_model, settings.embedding_model_path)
    place = "sentence-transformers" if importlib.util.find_spec("sentence_transformers") else None
    if own is not None:
        place = own.source
    elif settings.embedding_model == TOY_MODEL:
        place = "this server"
    return {
        "name": settings.embedding_model if own is None else own.description.name,
        "in_use": True,
        "installed_in": place,
        "languages": [] if own is None else list(own.description.languages),
        "about": "not one of the known models",
        "how_to_install": "" if place else HOW_TO_USE,
    }


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("", "model", "installed", "for"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "model")
    for row in rows:
        place = row["installed_in"] or "no"
        table.add_row("*" if row["in_use"] else "", Text(row["name"]), Text(place), Text(row["about"]))
    console().print(table)
    for row in rows:
        if row["in_use"] and row["installed_in"] is None:
            console().print(f"{row['name']} is in use and not installed. {row['how_to_install']}")

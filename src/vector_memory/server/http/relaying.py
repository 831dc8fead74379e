"""Runs a relay to a shared memory over standard input and output."""

import asyncio
from functools import partial
from pathlib import Path
from typing import NoReturn

from vector_memory.errors import ConfigurationError
from vector_memory.outbox import Outbox
from vector_memory.outbox.places import outbox_for, user_folder
from vector_memory.server.app import serve
from vector_memory.server.http.relay import Relay, create_relay
from vector_memory.server.http.remote import Remote
from vector_memory.server.shutdown import end_process, stop_on_signals
from vector_memory.server.stdio import Wire, take_standard_streams
from vector_memory.settings import Redact, ServerOptions


def run_relay(url: str, token_file: Path, offer: ServerOptions, redacts: Redact) -> NoReturn:
    """Serve one client from a shared memory until it disconnects or a signal arrives; end the process."""
    read_token(token_file)  # a mistake is told at once
    relay = Relay(Remote(url, partial(read_token, token_file)), outbox_of(url, token_file), redacts)
    end = partial(end_process, relay.close)
    stop_on_signals(end)
    asyncio.run(serve(create_relay(relay, offer), Wire(*take_standard_streams(), end)))
    end()


def read_token(path: Path) -> str:
    """Return the token in a file. Raises ConfigurationError if it cannot be read, or anybody else may read it."""
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigurationError(f"Others can read the token in {path}: run `chmod 600 {path}`.")
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(f"The token file {path} cannot be read: {error.strerror}.") from error


def outbox_of(url: str, token_file: Path) -> Outbox:
    """Return what waits for a shared memory. Raises ConfigurationError if this user has no home.

    Each file with a token has its own: another token may open another namespace, where these texts do not belong. It is
    the file and not the token, so that a renewed token sends what has waited.
    """
    folder = user_folder()
    if folder is None:
        raise ConfigurationError("There is no home folder for what waits to be sent: set XDG_STATE_HOME.")
    return outbox_for(f"{url}\n{token_file.resolve()}", url, folder)

"""Checks what waits on this machine until it is stored, and what was set aside."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from vector_memory.domain.text import counted
from vector_memory.errors import DatabaseError
from vector_memory.maintenance.doctor.report import NAMED, Finding, Level, fine
from vector_memory.outbox.folder import SECONDS_FOR_A_TEXT, Contents, Deliverer, Outbox, all_of_user, outboxes_of
from vector_memory.settings import MemoryAddress

OUTBOX = "outbox"
"""The name of the check."""

ADVICE = "The servers of that memory, or the relays to it, store waiting texts as soon as they can."
AND_SET_ASIDE = "Read the texts that were set aside, delete them, or run `vector-memory doctor --fix` to retry them."

SECONDS_TO_NAME = 10
"""A process that is busy with one text for so long is named."""


def outbox_finding(address: MemoryAddress) -> Finding:
    """Check what waits for a memory, or for any other that this user's programs store in."""
    looked_at = [(outbox, outbox.contents()) for outbox in _outboxes(address)]
    found = [(outbox, contents) for outbox, contents in looked_at if contents.waiting or contents.refused]
    if not found:
        return fine(OUTBOX, "No text from hooks or relays is waiting to be stored.")
    sentences = [
        f"For {outbox.target}, in {outbox.folder}: {_contents_in_words(contents)}" for outbox, contents in found
    ]
    is_refused = any(contents.refused for _, contents in found)
    advice = f"{ADVICE} {AND_SET_ASIDE}" if is_refused else ADVICE
    return Finding(OUTBOX, Level.WARNING, "\n".join(sentences), advice, fixable=is_refused)


def try_again(address: MemoryAddress) -> str:
    """Let what was set aside be tried again; say how much that is. Raises DatabaseError."""
    try:
        texts = sum(outbox.put_back() for outbox in _outboxes(address))
    except OSError as error:
        raise DatabaseError(f"The texts that were set aside could not be moved back ({error.strerror}).") from error
    return f"{counted(texts, 'text')} will be retried."


def _outboxes(address: MemoryAddress) -> Iterator[Outbox]:
    """Yield the outboxes of a memory, and all others of this user."""
    own = outboxes_of(address)
    yield from own
    folders = {outbox.folder for outbox in own}
    yield from (outbox for outbox in all_of_user() if outbox.folder not in folders)


def _contents_in_words(contents: Contents) -> str:
    """Say what is in an outbox that is not empty."""
    sentences = []
    if contents.waiting:
        since = datetime.fromtimestamp(contents.since or 0, UTC).isoformat(" ", "seconds")
        wait = "waits" if contents.waiting == 1 else "wait"
        sentences.append(f"{counted(contents.waiting, 'text')} {wait} since {since}.")
        sentences += [contents.problem] if contents.problem else []
        sentences += _said_of(contents.deliverer)
    if contents.refused:
        was = "was" if len(contents.refused) == 1 else "were"
        sentences.append(f"{counted(len(contents.refused), 'text')} {was} set aside in the folder `refused` there:")
        shown = [f"{path.name}: {reason or 'The reason is unknown.'}" for path, reason in contents.refused[:NAMED]]
        sentences += [*shown, *(["..."] if len(contents.refused) > NAMED else [])]
    return " ".join(sentences)


def _said_of(deliverer: Deliverer | None) -> list[str]:
    """Say which process delivers if it has been busy with one text for long."""
    if deliverer is None or (seconds := round(time.time() - deliverer.since)) < SECONDS_TO_NAME:
        return []
    pid = deliverer.pid
    busy = f"Process {pid} has been busy with one of them for {seconds} s."
    suspended = f"If it is suspended (`ps -o stat= -p {pid}` prints T), run `kill -CONT {pid}`, or end it."
    others = f"After {SECONDS_FOR_A_TEXT:.0f} s another server of that memory, or relay to it, takes over."
    return [busy, suspended, others]

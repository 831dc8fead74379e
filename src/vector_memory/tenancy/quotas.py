"""How much a namespace may hold, and how often it may be called."""

import json
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from vector_memory.errors import ConfigurationError, QuotaExceededError
from vector_memory.storage.disk.drafts import Rules, draft_of

FILE = "quota.json"
MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of a namespace; None: none. `megabytes`: of its database. `calls_per_minute`: in each process."""

    memories: int | None = None
    megabytes: int | None = None
    calls_per_minute: int | None = None

    @property
    def limits_size(self) -> bool:
        """Whether it limits what the namespace may hold."""
        return self.memories is not None or self.megabytes is not None

    def require_room(self, memories: int, size: int) -> None:
        """Raise QuotaExceededError if a namespace of so many memories and bytes may not grow any more."""
        if self.memories is not None and memories >= self.memories:
            raise QuotaExceededError(
                f"This namespace may hold {self.memories:,} memories and is full: delete some, or ask for more."
            )
        if self.megabytes is not None and size >= self.megabytes * 2**20:
            raise QuotaExceededError(
                f"This namespace may take {self.megabytes:,} MB and is full: delete memories, or ask for more."
            )


def read_quota(folder: Path) -> Quota:
    """Return the quota in the folder of a namespace. Raises ConfigurationError if its file is damaged."""
    try:
        data = json.loads((folder / FILE).read_bytes())
        return Quota(**{field.name: data.get(field.name) for field in fields(Quota)})
    except FileNotFoundError:
        return Quota()
    except (ValueError, AttributeError) as error:
        raise ConfigurationError(f"The quota of the namespace {folder.name} is damaged: set it again.") from error


def write_quota(folder: Path, quota: Quota) -> None:
    """Set the quota of the namespace in a folder. Servers notice it within seconds."""
    with draft_of(folder / FILE, Rules(overwrite=True)) as draft:
        with draft.open() as stream:
            stream.write(json.dumps(asdict(quota)).encode())
        draft.publish()


class Pace:
    """Counts the calls of the last minute."""

    def __init__(self) -> None:
        self._calls: deque[float] = deque()
        self._lock = threading.Lock()

    def count(self, most: int | None) -> None:
        """Count a call. Raises QuotaExceededError, which says when to try again, if there were `most` already."""
        if most is None:
            return
        now = time.monotonic()
        with self._lock:
            while self._calls and self._calls[0] <= now - MINUTE:
                self._calls.popleft()
            if len(self._calls) >= most:
                wait = self._calls[-most] + MINUTE - now if most else MINUTE
                raise QuotaExceededError(
                    f"This namespace may make {most:,} calls a minute: try again in {max(1, round(wait))} s."
                )
            self._calls.append(now)

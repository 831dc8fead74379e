"""The public keys of an identity provider, which its tokens are checked with."""

import asyncio
import json
import logging
import math
import time

import httpx2
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey
from starlette.authentication import AuthenticationError

from vector_memory.server.http.bodies import RETRY_SECONDS

logger = logging.getLogger(__name__)

SECONDS_TO_FETCH = 10.0
"""How long the provider may take for the whole answer."""

MOST_BYTES = 2**20
"""How long its answer may be: a hundred times what providers send."""

SECONDS_VALID = 3_600.0
"""How long keys are believed before they are fetched again."""

SECONDS_BETWEEN_FETCHES = 30.0
"""A token may name any key, and each unknown one would be a reason to fetch them."""


class Unfetched(Exception):  # noqa: N818 - what is wrong is in the log, and the callers learn it in other words
    """The provider has not answered with keys."""


class Keys:
    """Fetches keys when a token needs one that is not known, and notes for that token alone whether it could."""

    def __init__(self, url: str) -> None:
        self._client = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(),
            timeout=SECONDS_TO_FETCH,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )
        self._url = url
        self._keys: dict[str | None, RSAKey] = {}
        self._fetched_at = self._tried_at = -math.inf
        self._is_away = False
        self._fetching = asyncio.Lock()

    async def get(self, name: str | None) -> RSAKey | None:
        """Return the key with this id, or the only one if a token names none; None: the provider has no such key.

        Raises AuthenticationError if that cannot be known, because the provider cannot be reached.
        """
        if (key := self._known(name)) is not None:
            return key
        async with self._fetching:
            if self._known(name) is None and self._may_fetch():
                await self._fetch()
        key = self._known(name)
        if key is None and self._is_away:
            raise AuthenticationError("Signed tokens cannot be checked for now: their issuer's keys cannot be fetched.")
        return key

    def _known(self, name: str | None) -> RSAKey | None:
        if time.monotonic() - self._fetched_at > SECONDS_VALID:
            return None
        if name is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(name)

    def _may_fetch(self) -> bool:
        pause = RETRY_SECONDS if self._is_away else SECONDS_BETWEEN_FETCHES
        return time.monotonic() - self._tried_at >= pause

    async def _fetch(self) -> None:
        self._tried_at, self._is_away = time.monotonic(), True
        try:
            async with asyncio.timeout(SECONDS_TO_FETCH):
                self._keys = keys_in(await self._answer())
        except (httpx2.HTTPError, TimeoutError, Unfetched) as error:
            logger.warning("The keys of signed tokens cannot be fetched: %s", error or type(error).__name__)
            return
        self._fetched_at, self._is_away = time.monotonic(), False

    async def _answer(self) -> bytes:
        """Return what the provider answers. Raises Unfetched."""
        async with self._client.stream("GET", self._url) as response:
            if not response.is_success:
                raise Unfetched(f"the answer has the status {response.status_code}")
            body = b""
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MOST_BYTES:
                    raise Unfetched("the answer is too long")
            return body


def keys_in(body: bytes) -> dict[str | None, RSAKey]:
    """Return the keys in an answer by their ids. Those of other kinds are left out. Raises Unfetched."""
    try:
        entries = json.loads(body)["keys"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Unfetched("the answer has no keys") from None
    keys = {}
    for entry in entries if isinstance(entries, list) else ():
        try:
            keys[entry.get("kid")] = RSAKey.import_key(entry)
        except (JoseError, ValueError, TypeError, KeyError, AttributeError):
            continue
    if not keys:
        raise Unfetched("the answer has no key for RS256")
    return keys

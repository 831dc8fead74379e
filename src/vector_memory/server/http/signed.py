"""Tokens that an identity provider has signed: JSON web tokens, checked with its public keys, which are fetched."""

import asyncio
import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
from fastmcp.server.auth import AccessToken
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey
from starlette.authentication import AuthenticationError

from vector_memory.server.current_store import CLAIM
from vector_memory.server.http.asgi_guard import RETRY_SECONDS
from vector_memory.settings import HttpOptions
from vector_memory.tenancy.tokens import Caller, Permission

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


ALGORITHM = "RS256"

LEEWAY_SECONDS = 60
"""How far the clock of an identity provider may be ahead."""

NAMESPACE_CLAIM = "namespace"
"""The claim of a signed token that names the caller's namespace."""

OWNER_CLAIMS = ("sub", "client_id", "azp")
"""The claims that name its owner: the first one counts."""

MARK = "jwt:"
"""Begins the name of a caller with a signed token. That of no other token has a colon."""

LONGEST_NAME = 255
"""OpenID Connect permits no longer `sub`."""


class RefusedError(Exception):
    """A signed token does not open anything. The reason is for the log."""


class SignedTokens:
    """Checks the tokens of one issuer."""

    def __init__(self, issuer: str, audience: str, keys: Keys) -> None:
        self._keys = keys
        self._claims = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
        )

    async def verify(self, token: str) -> AccessToken | None:
        """Return the caller with the scopes of a token; None: it is not valid, or lacks a claim.

        Raises AuthenticationError if its key cannot be fetched.
        """
        try:
            key = await self._keys.get(key_named_by(token))
            if key is None:
                raise RefusedError("its key is unknown")  # noqa: TRY301 - one place logs all refusals
            claims = jwt.decode(token, key, algorithms=[ALGORITHM], registry=registry()).claims
            self._claims.validate(claims)
            return access_of(token, claims)
        except (RefusedError, JoseError) as reason:
            logger.info("A signed token was refused: %s", reason)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            logger.info("A signed token was refused: it is malformed")
        return None


def registry() -> jws.JWSRegistry:
    """Return what a header may contain: also what is not known here, unless it is marked as critical."""
    return jws.JWSRegistry(algorithms=[ALGORITHM], strict_check_header=False)


def key_named_by(token: str) -> str | None:
    """Return the id of the key that a token names; None: it names none. Raises ValueError, JoseError or others."""
    name = jws.extract_compact(token.encode(), registry=registry()).headers().get("kid")
    if name is not None and not isinstance(name, str):
        raise RefusedError("its key is not named by a text")
    return name


def access_of(token: str, claims: Mapping[str, Any]) -> AccessToken:
    """Return the caller of a valid token. Raises RefusedError if it lacks a claim."""
    namespace, permission, owner = claims.get(NAMESPACE_CLAIM), largest(scopes_in(claims)), owner_in(claims)
    if not isinstance(namespace, str) or permission is None or owner is None:
        raise RefusedError(f"it needs the claims {NAMESPACE_CLAIM} and sub, and a scope")
    return AccessToken(
        token=token,
        client_id=owner,
        subject=owner,
        scopes=list(permission.included),
        expires_at=math.ceil(claims["exp"]),
        claims={**claims, CLAIM: Caller(name=MARK + owner, namespace=namespace, permission=permission)},
    )


def owner_in(claims: Mapping[str, Any]) -> str | None:
    """Return who a token is of, in words that a line of the audit log can hold; None: it does not say."""
    owner = next((claims[name] for name in OWNER_CLAIMS if claims.get(name)), None)
    is_name = isinstance(owner, str) and len(owner) <= LONGEST_NAME and owner.isprintable()
    return owner if is_name else None


def scopes_in(claims: Mapping[str, Any]) -> Sequence[Any]:
    """Return the scopes of a token, which providers write in two ways."""
    scopes = claims.get("scope", claims.get("scp", ()))
    return scopes.split() if isinstance(scopes, str) else scopes


def largest(scopes: Sequence[Any]) -> Permission | None:
    """Return the largest permission among the scopes of a token."""
    return max((one for one in Permission if one in scopes), key=list(Permission).index, default=None)


def signed_tokens(http: HttpOptions) -> SignedTokens | None:
    """Return what checks signed tokens; None: there is no identity provider."""
    if http.jwt_issuer is None or http.jwt_audience is None or http.jwt_jwks_url is None:
        return None
    return SignedTokens(http.jwt_issuer, http.jwt_audience, Keys(http.jwt_jwks_url))

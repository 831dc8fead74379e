"""Tokens that an identity provider has signed: JSON web tokens, checked by FastMCP with its public keys."""

import asyncio
import json
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
from fastmcp.server.auth import AccessToken
from fastmcp.server.auth.providers.jwt import JWTVerifier
from joserfc.errors import JoseError
from joserfc.jwt import JWTClaimsRegistry
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

LEEWAY_SECONDS = 60
"""How far the clock of an identity provider may be ahead when it says when a token was issued."""

NAMESPACE_CLAIM = "namespace"
"""The claim of a signed token that names the caller's namespace."""

OWNER_CLAIMS = ("sub", "client_id", "azp")
"""The claims that name its owner: the first one counts."""

MARK = "jwt:"
"""Begins the name of a caller with a signed token. That of no other token has a colon."""

LONGEST_NAME = 255
"""OpenID Connect permits no longer `sub`."""


class SignedTokens(JWTVerifier):
    """Checks the tokens of one issuer.

    FastMCP answers None, and the server 401, if keys cannot be fetched; it reads an answer of any length as slowly as
    it comes, and accepts tokens that never expire, or that are issued in the future.
    """

    def __init__(self, issuer: str, audience: str, url: str) -> None:
        """`url`: of the issuer's keys."""
        super().__init__(jwks_uri=url, issuer=issuer, audience=audience, jwks_refresh_interval=RETRY_SECONDS)
        self._keys = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(),
            timeout=SECONDS_TO_FETCH,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )
        self._claims = JWTClaimsRegistry(leeway=LEEWAY_SECONDS, exp={"essential": True})
        self._is_away = False

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the caller with the scopes of a token; None: it is not valid, or lacks a claim.

        Raises AuthenticationError if its key cannot be fetched.
        """
        try:
            if (access := await super().verify_token(token)) is not None:
                self._claims.validate(access.claims)
                return access_of(access)
        except (JoseError, ArithmeticError, RecursionError) as reason:
            logger.info("A signed token was refused: %s", reason)
        return None

    async def _get_jwks_key(self, kid: str | None) -> str:
        try:
            return await super()._get_jwks_key(kid)
        except ValueError:
            if self._is_away or not self._jwks_cache:
                raise AuthenticationError(
                    "Signed tokens cannot be checked for now: their issuer's keys cannot be fetched."
                ) from None
            raise

    async def _fetch_jwks(self) -> dict[str, Any]:
        self._is_away = True
        try:
            async with asyncio.timeout(SECONDS_TO_FETCH):
                keys = [key for key in json.loads(await self._answer())["keys"] if key["kty"] == "RSA"]
            if not keys:  # FastMCP would forget those that it knows
                raise ValueError("the answer has no key for RS256")  # noqa: TRY301 - one place logs all reasons
        except (httpx2.HTTPError, TimeoutError, RecursionError, LookupError, TypeError, ValueError) as error:
            logger.warning("The keys of signed tokens cannot be fetched: %s", error or type(error).__name__)
            raise ValueError from None
        self._is_away = False
        return {"keys": keys}

    async def _answer(self) -> bytes:
        """Return what the provider answers. Raises ValueError if that is too long, or an error."""
        async with self._keys.stream("GET", self.jwks_uri or "") as response:
            if not response.is_success:
                raise ValueError(f"the answer has the status {response.status_code}")
            body = b""
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MOST_BYTES:
                    raise ValueError("the answer is too long")
            return body


def access_of(checked: AccessToken) -> AccessToken | None:
    """Return the caller of a valid token; None: it lacks a claim."""
    claims = checked.claims
    namespace, permission, owner = claims.get(NAMESPACE_CLAIM), largest(checked.scopes), owner_in(claims)
    if not isinstance(namespace, str) or permission is None or owner is None:
        logger.info("A signed token was refused: it needs the claims %s and sub, and a scope", NAMESPACE_CLAIM)
        return None
    return AccessToken(
        token=checked.token,
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


def largest(scopes: Sequence[str]) -> Permission | None:
    """Return the largest permission among the scopes of a token."""
    return max((one for one in Permission if one in scopes), key=list(Permission).index, default=None)


def signed_tokens(http: HttpOptions) -> SignedTokens | None:
    """Return what checks signed tokens; None: there is no identity provider."""
    if http.jwt_issuer is None or http.jwt_audience is None or http.jwt_jwks_url is None:
        return None
    return SignedTokens(http.jwt_issuer, http.jwt_audience, http.jwt_jwks_url)

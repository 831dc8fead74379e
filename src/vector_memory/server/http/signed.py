"""Tokens that an identity provider has signed: JSON web tokens, checked with its keys."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastmcp.server.auth import AccessToken
from joserfc import jws, jwt
from joserfc.errors import JoseError

from vector_memory.server.current_store import CLAIM
from vector_memory.server.http.keys import Keys
from vector_memory.settings import HttpOptions
from vector_memory.tenancy.callers import Caller, Permission

logger = logging.getLogger(__name__)

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
    caller = Caller(name=MARK + owner, namespace=namespace, permission=permission)
    return AccessToken(
        token=token,
        client_id=owner,
        subject=owner,
        scopes=list(permission.included),
        expires_at=math.ceil(claims["exp"]),
        claims={**claims, CLAIM: caller},
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

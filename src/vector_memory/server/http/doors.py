"""Who may come in: the tokens of this server, and those that a company's identity provider has signed."""

import logging

from fastmcp.server.auth import AccessToken, TokenVerifier

from vector_memory.errors import ConfigurationError
from vector_memory.server.callers import CLAIM
from vector_memory.tenancy.callers import Permission
from vector_memory.tenancy.tokens import TokenFile

logger = logging.getLogger(__name__)


class OwnTokens(TokenVerifier):
    """Admits the tokens of a file, which is read again at each call: a revoked token is refused at once."""

    def __init__(self, tokens: TokenFile, public_url: str | None = None) -> None:
        super().__init__(base_url=public_url, required_scopes=[Permission.READ])
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the token's owner and scopes; None: it is unknown, revoked or expired."""
        try:
            found = self._tokens.find(token)
        except (ConfigurationError, OSError) as error:
            logger.error("No token can be checked: %s", error)  # noqa: TRY400 - the traceback adds nothing
            return None
        if found is None:
            return None
        return AccessToken(
            token=found.sha256,  # the secret is in no object that might be logged
            client_id=found.name,
            scopes=[str(permission) for permission in found.permission.included],
            expires_at=None if found.expires_at is None else int(found.expires_at),
            claims={CLAIM: found.caller},
        )

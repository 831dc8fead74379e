"""An identity provider, and the tokens that it signs."""

import base64
import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joserfc import jws
from joserfc.jwk import RSAKey

from over_http.conftest import serving
from vector_memory.extras.teams.registry import Registry
from vector_memory.settings import HttpOptions

ISSUER, AUDIENCE = "https://id.example.com", "https://memory.example.com/mcp"


class Provider:
    """An identity provider on a port of its own. `answer`, `status`: to who asks for its keys; `asked`: how often."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048)
        self.asked = 0
        self.status = 200
        self.answer: bytes | Iterator[bytes] = json.dumps({"keys": [self.public("1")]}).encode()
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                self.send_response(provider.status)
                self.end_headers()
                for piece in [provider.answer] if isinstance(provider.answer, bytes) else provider.answer:
                    self.wfile.write(piece)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/keys"

    def public(self, name: str) -> dict[str, Any]:
        """Return the public key under an id."""
        return self.key.as_dict(private=False) | {"kid": name, "alg": "RS256", "use": "sig"}

    def token(self, *, header: dict[str, Any] | None = None, claims: str | None = None, **changes: Any) -> str:
        """Sign a token. `claims`: the text to sign, instead of `changes` to what a token has; None removes a claim."""
        facts = {"iss": ISSUER, "aud": AUDIENCE, "scope": "write", "sub": "ada", "namespace": "red"}
        times = {"iat": int(time.time()), "exp": int(time.time()) + 3600}
        said = {name: value for name, value in (facts | times | changes).items() if value is not None}
        text = json.dumps(said) if claims is None else claims
        return jws.serialize_compact({"alg": "RS256", "kid": "1"} | (header or {}), text, self.key, registry=LENIENT)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


LENIENT = jws.JWSRegistry(algorithms=["RS256"], strict_check_header=False)


def options(provider: Provider, folder: Path) -> HttpOptions:
    """Return the options of a server that accepts the tokens of a provider."""
    return HttpOptions(
        http=True,
        data_dir=folder,
        public_url="https://memory.example.com",
        jwt_issuer=ISSUER,
        jwt_audience=AUDIENCE,
        jwt_jwks_url=provider.url,
    )


@contextmanager
def trusting(provider: Provider, folder: Path) -> Iterator[str]:
    """Run a server with the namespace red that accepts the tokens of a provider, and yield its address."""
    Registry(folder).create("red")
    with serving(options(provider, folder), folder) as url:
        yield url


def unsigned(header: str) -> str:
    """Return what looks like a token, with a header that may be anything."""
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in (header, "{}", "x"))

"""How clients reach the server over HTTP, described once like every setting."""

import re
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from vector_memory.settings.database_url import SettingsModel, is_loopback, refused_together
from vector_memory.settings.locations import FullPath

URL = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(/[^\s?#]*)?")


class HttpOptions(SettingsModel):
    """How clients reach the server. A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`."""

    http: bool = Field(default=False, description="Serve many clients over HTTP instead of one over standard input.")
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8765, ge=0, le=65_535, description="Port to listen on.")
    data_dir: FullPath | None = Field(
        default=None,
        description="Folder of the namespaces and tokens of several teams. Without it, the server has one memory, "
        "needs no token, and listens on this machine only.",
    )
    audit_key: FullPath | None = Field(
        default=None,
        description="File with the key that signs the audit log; created at the first start, it must be outside "
        "the data folder. Default: a file in ~/.local/state/vector-memory/audit.",
    )
    workers: int = Field(default=1, ge=1, le=64, description="Number of processes that share the port.")
    ui: bool = Field(
        default=False,
        description="Also offer the page over the memory at /ui, to anyone with a token for a whole namespace.",
    )
    public_url: str | None = Field(
        default=None,
        description="URL by which clients reach the server, such as https://memory.example.com; required beyond this "
        "machine. With a path, everything is also served below it.",
    )
    jwt_issuer: str | None = Field(
        default=None, description="Also accept the JSON web tokens of this issuer, the URL of an identity provider."
    )
    jwt_audience: str | None = Field(
        default=None, description="Audience that these tokens must be for: this server's URL as the provider knows it."
    )
    jwt_jwks_url: str | None = Field(default=None, description="URL of the issuer's keys (JWKS).")
    remote: str | None = Field(
        default=None,
        description="Serve over standard input, but answer from the shared memory at this URL. Texts that it "
        "cannot store yet are kept on this machine and sent later.",
    )
    token_file: FullPath | None = Field(default=None, description="File with the token for the shared memory.")
    tls_cert: FullPath | None = Field(default=None, description="File with the TLS certificate chain, in PEM format.")
    tls_key: FullPath | None = Field(default=None, description="File with the TLS private key, in PEM format.")

    @field_validator("public_url")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is not None and not URL.fullmatch(value):
            raise ValueError("must be a URL such as https://memory.example.com")
        return value

    @model_validator(mode="after")
    def _is_guarded(self) -> "HttpOptions":
        if self.remote is not None and (self.http or self.token_file is None):
            raise refused_together("remote needs token_file, and serves standard input only", "remote", "token_file")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise refused_together("tls_cert and tls_key are needed together", "tls_cert", "tls_key")
        jwt = (self.jwt_issuer, self.jwt_audience, self.jwt_jwks_url)
        if any(jwt) and not all((*jwt, self.public_url, self.data_dir)):
            raise refused_together(
                "jwt_issuer, jwt_audience and jwt_jwks_url are needed together, and with public_url and data_dir",
                "jwt_issuer",
                "jwt_audience",
                "jwt_jwks_url",
            )
        if self.workers > 1 and self.data_dir is None:
            raise refused_together("workers need data_dir, the folder that they share", "workers", "data_dir")
        if self.ui and (self.data_dir is None or self.workers > 1):
            raise refused_together(
                "ui needs data_dir, for its tokens, and one worker, where deletions wait to be undone", "ui", "data_dir"
            )
        if self.http and not is_loopback(self.host):
            if self.data_dir is None:
                raise refused_together(
                    f"host ({self.host}) can be reached from other machines, and without data_dir there are no tokens",
                    "host",
                    "data_dir",
                )
            if self.public_url is None:
                raise refused_together(
                    f"host ({self.host}) can be reached from other machines, so public_url must say by which name",
                    "host",
                    "public_url",
                )
        return self

    def hosts(self) -> list[str]:
        """Return the names by which clients reach the server, besides those of this machine."""
        return [name] if (name := urlsplit(self.public_url or "").hostname) else []

    def origins(self) -> list[str]:
        """Return the origin of this server's own pages: browsers may call it from no other."""
        parts = urlsplit(self.public_url or "")
        return [f"{parts.scheme}://{parts.netloc}"] if parts.netloc else []

    @property
    def is_secure(self) -> bool:
        """Whether clients reach the server over HTTPS."""
        return self.tls_cert is not None or (self.public_url or "").startswith("https:")

    @property
    def prefix(self) -> str:
        """The path of the public URL, which a proxy may remove before it passes requests on."""
        return urlsplit(self.public_url or "").path.rstrip("/")

    def address(self, port: int) -> str:
        """Return the URL of a server that listens on a port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        base = self.public_url or f"{'https' if self.tls_cert else 'http'}://{host}:{port}"
        return f"{base.rstrip('/')}/mcp"

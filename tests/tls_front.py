"""A front that speaks TLS for a PostgreSQL server that cannot: it ends the encryption and passes the bytes on."""

import datetime
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

ASKS_FOR_TLS = (8).to_bytes(4, "big") + (80_877_103).to_bytes(4, "big")


def write_certificate(folder: Path, host: str) -> Path:
    """Write a certificate that vouches for itself, with its key in the same file, and return its path."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    path = folder / f"{host}.pem"
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(certificate.public_bytes(encoding) + private)
    return path


@contextmanager
def tls_front(target: Path, certificate: Path | None) -> Iterator[int]:
    """Listen on a port of this machine for a server's socket; yield the port. No certificate: TLS is not offered."""
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=serve, args=(client, target, context), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listening.getsockname()[1]
    listening.close()


def serve(client: socket.socket, target: Path, context: ssl.SSLContext | None) -> None:
    """Pass the bytes of one connection on, in both directions, until one side closes."""
    with suppress(OSError), client, socket.socket(socket.AF_UNIX) as server:
        server.connect(str(target))
        first = client.recv(8, socket.MSG_WAITALL)
        if first == ASKS_FOR_TLS and context is not None:
            client.sendall(b"S")
            with context.wrap_socket(client, server_side=True) as decrypted:
                carry(decrypted, server)
        elif first == ASKS_FOR_TLS:
            client.sendall(b"N")
            carry(client, server)
        else:
            server.sendall(first)
            carry(client, server)


def carry(client: socket.socket, server: socket.socket) -> None:
    """Pass bytes on in both directions until one side closes."""
    while True:
        pending = isinstance(client, ssl.SSLSocket) and client.pending()
        ready = [client] if pending else select.select([client, server], [], [])[0]
        for side in ready:
            data = side.recv(65_536)
            if not data:
                return
            (server if side is client else client).sendall(data)

"""The host of clients that have a metadata document: HTTPS on this machine, and a count of what arrives.

Its authority is made by `openssl` for each run. The gateway gets it by `SSL_CERT_FILE`, and reaches the host as
`localhost`, which it has to trust.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Document:
    """What is answered for one path."""

    body: bytes
    kind: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Seconds before the answer.
    wait: float = 0


class ClientHost:
    """Publishes documents at https://localhost:PORT/."""

    def __init__(self, folder: Path) -> None:
        self.requested: list[str] = []
        self.ca = folder / "clients-ca.pem"
        self._folder = folder
        self._documents: dict[str, Document] = {}
        self._make_certificates()
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.requested.append(self.path)
                document = host._documents.get(self.path, Document(b"", status=404))
                time.sleep(document.wait)
                self.send_response(document.status)
                fields = {"content-type": document.kind, "content-length": str(len(document.body)), **document.headers}
                for name, value in fields.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(document.body)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "clients.pem", folder / "clients.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def name(self) -> str:
        """Its host and port, as `trusted_hosts` has them."""
        return f"localhost:{self.server.server_port}"

    def url(self, path: str) -> str:
        return f"https://{self.name}{path}"

    def publish(self, path: str, redirect_uris: list[str], **members: Any) -> str:
        """Publishes the document of a client, and returns its id."""
        document = {
            "client_id": self.url(path),
            "client_name": "A client",
            "redirect_uris": redirect_uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            **members,
        }
        return self.answer(path, Document(json.dumps(document).encode()))

    def answer(self, path: str, document: Document) -> str:
        self._documents[path] = document
        return self.url(path)

    def _make_certificates(self) -> None:
        for name in ("clients-ca", "clients"):
            self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")
        subject = ("-subj", "/CN=An authority of a test", "-days", "2")
        self._openssl("req", "-x509", "-new", "-key", "clients-ca.key", "-out", "clients-ca.pem", *subject)
        self._openssl("req", "-new", "-key", "clients.key", "-out", "clients.csr", "-subj", "/CN=localhost")
        (self._folder / "clients.ext").write_text("subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n")
        authority = ("-CA", "clients-ca.pem", "-CAkey", "clients-ca.key", "-CAcreateserial")
        self._openssl(
            "x509", "-req", "-in", "clients.csr", *authority, "-days", "2", "-extfile", "clients.ext", "-out", "clients.pem"
        )

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._folder, capture_output=True, check=True)


class SigningKey:
    """An RSA key with which a client proves who it is (RS256)."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "assertion.key"
        words = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(self._file)]
        subprocess.run(words, capture_output=True, check=True)

    def public(self) -> dict[str, str]:
        """The public half, as a JSON Web Key."""
        words = ["openssl", "rsa", "-in", str(self._file), "-modulus", "-noout"]
        out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        modulus = bytes.fromhex(out.strip().removeprefix("Modulus="))
        return {"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig", "n": _encoded(modulus), "e": "AQAB"}

    def assertion(self, client: str, audience: str, **claims: Any) -> str:
        """An assertion of the client for the authorization server `audience`."""
        now = int(time.time())
        body = {"iss": client, "sub": client, "aud": audience, "iat": now, "exp": now + 60, "jti": str(time.time_ns()), **claims}
        parts = [_encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "one"}, body)]
        text = ".".join(parts)
        words = ["openssl", "dgst", "-sha256", "-sign", str(self._file)]
        signature = subprocess.run(words, input=text.encode(), capture_output=True, check=True).stdout
        return f"{text}.{_encoded(signature)}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@contextmanager
def client_host(folder: Path) -> Iterator[ClientHost]:
    folder.mkdir(parents=True, exist_ok=True)
    host = ClientHost(folder)
    threading.Thread(target=host.server.serve_forever, daemon=True).start()
    try:
        yield host
    finally:
        host.server.shutdown()
        host.server.server_close()


class Trap:
    """A port on every address of this machine, which counts the connections that arrive."""

    def __init__(self) -> None:
        self.connections = 0
        self._sockets = [socket.socket(socket.AF_INET), socket.socket(socket.AF_INET6)]
        self._sockets[1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self._sockets[0].bind(("0.0.0.0", 0))
        self.port: int = self._sockets[0].getsockname()[1]
        self._sockets[1].bind(("::", self.port))
        for one in self._sockets:
            one.listen(64)
            threading.Thread(target=self._count, args=(one,), daemon=True).start()

    def _count(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def __enter__(self) -> Trap:
        return self

    def __exit__(self, *_: Any) -> None:
        for one in self._sockets:
            one.close()

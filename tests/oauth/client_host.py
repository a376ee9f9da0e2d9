"""The host of clients that have a metadata document: HTTPS on this machine, and a count of what arrives.

Its authority is made by `openssl` for each run. The gateway gets it by `SSL_CERT_FILE`, and reaches the host as
`localhost`, which it has to trust.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class ClientHost:
    """Publishes documents at https://localhost:PORT/."""

    def __init__(self, folder: Path) -> None:
        self.requested: list[str] = []
        self.ca = folder / "clients-ca.pem"
        self._folder = folder
        self._documents: dict[str, bytes] = {}
        self._make_certificates()
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.requested.append(self.path)
                document = host._documents.get(self.path)
                self.send_response(404 if document is None else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(document or b"")))
                self.end_headers()
                self.wfile.write(document or b"")

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

    def publish(self, path: str, redirect_uris: list[str]) -> str:
        """Publishes the document of a client, and returns its id."""
        id = f"https://{self.name}{path}"
        document = {
            "client_id": id,
            "client_name": "A client",
            "redirect_uris": redirect_uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        self._documents[path] = json.dumps(document).encode()
        return id

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

"""The host of clients that have a metadata document: HTTPS on this machine, and the paths that were requested.

The gateway trusts its certificate by `SSL_CERT_FILE`, and reaches the host as `localhost`.
"""

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class ClientHost:
    """Publishes documents at https://localhost:PORT/."""

    def __init__(self, folder: Path) -> None:
        self.requested: list[str] = []
        self.certificate = folder / "certificate.pem"
        self._documents = folder / "documents"
        self._documents.mkdir(parents=True)
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-days", "2", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
                *("-keyout", folder / "key.pem", "-out", self.certificate, "-subj", "/CN=localhost"),
                *("-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"),
            ],
            capture_output=True,
            check=True,
        )
        host = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *connection: object) -> None:
                super().__init__(*connection, directory=str(host._documents))

            def log_message(self, *_: object) -> None:
                host.requested.append(self.path)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, folder / "key.pem")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def name(self) -> str:
        """Its host and port, as `trusted_hosts` has them."""
        return f"localhost:{self.server.server_port}"

    def publish(self, file: str, redirect_uris: list[str]) -> str:
        """Publishes the document of a client, and returns its id."""
        id = f"https://{self.name}/{file}"
        document = {
            "client_id": id,
            "client_name": "A client",
            "redirect_uris": redirect_uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        (self._documents / file).write_text(json.dumps(document))
        return id


@contextmanager
def client_host(folder: Path) -> Iterator[ClientHost]:
    host = ClientHost(folder)
    threading.Thread(target=host.server.serve_forever, daemon=True).start()
    try:
        yield host
    finally:
        host.server.shutdown()
        host.server.server_close()

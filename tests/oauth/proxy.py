"""A reverse proxy that serves the gateway below a path prefix, by the rules that `docs/security/authorization-server.md` gives."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: The path prefix.
PREFIX = "/tools"
#: Paths that reach the gateway as they are, and a path that reaches it without the prefix in its middle.
AS_THEY_ARE = (f"/.well-known/oauth-authorization-server{PREFIX}", f"/.well-known/openid-configuration{PREFIX}")
PROTECTED = "/.well-known/oauth-protected-resource"
#: Fields that belong to one connection.
OF_CONNECTION = ("connection", "keep-alive", "transfer-encoding", "content-length")


def at_gateway(path: str) -> str | None:
    """The path at the gateway; None for one that is of another service."""
    if path.startswith(f"{PREFIX}/"):
        return path.removeprefix(PREFIX)
    if path.startswith(AS_THEY_ARE):
        return path
    if path.startswith(f"{PROTECTED}{PREFIX}/"):
        return path.replace(PREFIX, "", 1)
    return None


@contextmanager
def proxy(port: int, gateway: int) -> Iterator[list[str]]:
    """Forwards requests to the gateway, and gives the list of the paths that were requested."""
    requested: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def forward(self) -> None:
            requested.append(self.path.partition("?")[0])
            path = at_gateway(self.path)
            if path is None:
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            upstream = http.client.HTTPConnection("127.0.0.1", gateway, timeout=60)
            fields = {name: value for name, value in self.headers.items() if name.lower() not in OF_CONNECTION}
            upstream.request(self.command, path, body or None, fields)
            answer = upstream.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in OF_CONNECTION:
                    self.send_header(name, value)
            self.send_header("connection", "close")
            self.end_headers()
            while part := answer.read1(65_536):
                self.wfile.write(part)
            self.close_connection = True

        do_GET = do_POST = do_DELETE = do_OPTIONS = do_HEAD = forward

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass

    server = Server(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield requested
    finally:
        server.shutdown()

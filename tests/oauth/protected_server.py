"""A protected MCP server (FastMCP) that verifies the tokens of an authorization server and shows whose they are.

    peer-python protected_server.py PORT CONTROL_PORT ISSUER

It is at http://127.0.0.1:PORT/mcp, publishes RFC 9728 metadata, and accepts access tokens (JWT) of ISSUER for itself. The
control port is for the test program:

    GET  /state    counts of requests, for each account too, and the tokens that came with the account of each
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import Any

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken, RemoteAuthProvider
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

NOTES = {
    "ann": "the harvest was good",
    "ben": "the boat leaks",
    "cas": "the cat is back",
    "dan": "nothing new",
    "machine": "no rest for machines",
}


class Seen:
    """Counts requests."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.accounts: dict[str, str] = {}

    def state(self) -> dict[str, Any]:
        return {"requests": dict(self.requests), "tokens": len(self.accounts), "accounts": self.accounts}


class Verifier(JWTVerifier):
    """Verifies signature, issuer, audience and time, and counts the request."""

    def __init__(self, seen: Seen, **settings: Any) -> None:
        super().__init__(**settings)
        self._seen = seen

    async def verify_token(self, token: str) -> AccessToken | None:
        verified = await super().verify_token(token)
        if verified is None:
            self._seen.requests["with an invalid token"] += 1
            return None
        account = str(verified.claims["sub"])
        self._seen.requests[f"of {account}"] += 1
        self._seen.accounts[token] = account
        return verified


def server(seen: Seen, url: str, issuer: str) -> FastMCP:
    verifier = Verifier(
        seen, jwks_uri=f"{issuer}/jwks", issuer=issuer, audience=f"{url}/mcp", required_scopes=["notes:read"]
    )
    auth = RemoteAuthProvider(
        token_verifier=verifier,
        authorization_servers=[AnyHttpUrl(issuer)],
        base_url=url,
        scopes_supported=["openid", "email", "notes:read"],
    )
    mcp: FastMCP = FastMCP("notes", auth=auth)

    def account() -> str:
        token = get_access_token()
        assert token is not None
        return str(token.claims["sub"])

    @mcp.tool
    def whoami() -> str:
        """The account that this call is made for."""
        return account()

    @mcp.tool
    async def read_note(wait_ms: int = 0) -> str:
        """The note of the account, after a while."""
        before = account()
        await asyncio.sleep(wait_ms / 1000)
        assert before == account()
        return f"{before}: {NOTES[before]}"

    return mcp


def control(seen: Seen) -> Starlette:
    async def state(_: Request) -> JSONResponse:
        return JSONResponse(seen.state())

    return Starlette(routes=[Route("/state", state)])


def counted(seen: Seen, app: Any) -> Any:
    """Counts the requests to the MCP endpoint that have no credential."""

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/mcp":
            if not any(name == b"authorization" for name, _ in scope["headers"]):
                seen.requests["without a token"] += 1
        await app(scope, receive, send)

    return wrapped


async def main(port: int, control_port: int, issuer: str) -> None:
    seen = Seen()
    app = counted(seen, server(seen, f"http://127.0.0.1:{port}", issuer).http_app())
    quiet = {"host": "127.0.0.1", "log_level": "warning"}
    services = (
        uvicorn.Server(uvicorn.Config(app, port=port, timeout_graceful_shutdown=1, **quiet)),
        uvicorn.Server(uvicorn.Config(control(seen), port=control_port, **quiet)),
    )
    await asyncio.gather(*(service.serve() for service in services))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))

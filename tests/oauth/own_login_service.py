"""MCP servers that are their own login service, as the Python SDK and FastMCP make them.

    peer-python own_login_service.py memory|sdk|github PORT

The server is at http://127.0.0.1:PORT/mcp and its issuer is http://127.0.0.1:PORT. `memory` is FastMCP with its
provider in memory, `sdk` the server of the SDK with the same provider, and `github` FastMCP's `GitHubProvider`. GitHub is
not reached: its two pages are served here, and its API is answered in this process.
"""

import sys

import httpx2
import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.providers.github import GitHubProvider
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from key_value.aio.stores.memory import MemoryStore
from mcp.server import MCPServer
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

REGISTRATION = ClientRegistrationOptions(enabled=True, valid_scopes=["user"], default_scopes=["user"])
TOKEN = "gho_token_of_octocat"


def in_memory(url: str) -> InMemoryOAuthProvider:
    return InMemoryOAuthProvider(base_url=url, client_registration_options=REGISTRATION, required_scopes=["user"])


def memory(url: str):
    return with_tool(FastMCP("memory", auth=in_memory(url))).http_app()


def sdk(url: str):
    issuer = AnyHttpUrl(url)
    settings = AuthSettings(
        issuer_url=issuer,
        resource_server_url=AnyHttpUrl(f"{url}/mcp"),
        client_registration_options=REGISTRATION,
        required_scopes=["user"],
        validate_token_resource=False,
    )
    return with_tool(MCPServer("sdk", auth_server_provider=in_memory(url), auth=settings)).streamable_http_app()


def github(url: str):
    """The API of GitHub knows one token."""

    def api(request: httpx2.Request) -> httpx2.Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return httpx2.Response(401)
        return httpx2.Response(200, json={"id": 7, "login": "octocat"}, headers={"x-oauth-scopes": "user"})

    provider = GitHubProvider(
        client_id="app",
        client_secret="secret-of-the-app",
        base_url=url,
        client_storage=MemoryStore(),
        jwt_signing_key="a test needs no secret",
        http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(api)),
    )
    provider._upstream_authorization_endpoint = f"{url}/github/authorize"
    provider._upstream_token_endpoint = f"{url}/github/token"
    app = with_tool(FastMCP("github", auth=provider)).http_app()

    async def authorize(request: Request) -> Response:
        asked = request.query_params
        return RedirectResponse(f"{asked['redirect_uri']}?code=code-of-octocat&state={asked['state']}")

    async def token(_: Request) -> Response:
        return JSONResponse({"access_token": TOKEN, "token_type": "bearer", "scope": "user"})

    app.router.routes.insert(0, Route("/github/authorize", authorize))
    app.router.routes.insert(0, Route("/github/token", token, methods=["POST"]))
    return app


def with_tool(server):
    @server.tool()
    def read_note() -> str:
        """A note."""
        return f"{server.name}: a note"

    return server


if __name__ == "__main__":
    kind, port = sys.argv[1], int(sys.argv[2])
    app = {"memory": memory, "sdk": sdk, "github": github}[kind](f"http://127.0.0.1:{port}")
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)

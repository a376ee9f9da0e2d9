"""A protected MCP server (FastMCP) that verifies the tokens of an authorization server and shows whose they are.

    peer-python protected_server.py PORT ISSUER

It is at http://127.0.0.1:PORT/mcp, publishes RFC 9728 metadata, and accepts access tokens (JWT) of ISSUER for itself.
"""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth import RemoteAuthProvider
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token
from pydantic import AnyHttpUrl

NOTES = {"ann": "the harvest was good", "ben": "the boat leaks", "machine": "no rest for machines"}


def server(url: str, issuer: str) -> FastMCP:
    verifier = JWTVerifier(
        jwks_uri=f"{issuer}/jwks", issuer=issuer, audience=f"{url}/mcp", required_scopes=["notes:read"]
    )
    auth = RemoteAuthProvider(
        token_verifier=verifier,
        authorization_servers=[AnyHttpUrl(issuer)],
        base_url=url,
        scopes_supported=["openid", "email", "notes:read"],
    )
    mcp: FastMCP = FastMCP("notes", auth=auth)

    @mcp.tool
    def read_note() -> str:
        """The note of the account that the call is made for."""
        token = get_access_token()
        assert token is not None
        account = str(token.claims["sub"])
        return f"{account}: {NOTES[account]}"

    return mcp


if __name__ == "__main__":
    port, issuer = sys.argv[1:]
    server(f"http://127.0.0.1:{port}", issuer).run(
        transport="http", host="127.0.0.1", port=int(port), show_banner=False,
        uvicorn_config={"timeout_graceful_shutdown": 1},
    )  # fmt: skip

"""The client of the Python SDK: sent to a login by URL elicitation, or with a login to the gateway itself.

    peer-python python_sdk.py '{"url": …, "key": …, "mode": "auto" | "legacy", "account": …, "tool": …}'

With a `key`, the gateway asks for the login of a server, and a browser opens the URL that the elicitation names. Without,
the SDK's own OAuth client gets a token for the gateway. `document` is the id of that client, else it registers; the password
of the person is in `BROWSER_PASSWORD`. `steps` are `call` (the default), `refresh`, before which the token expires, and
`revoke`. Prints one JSON line: the text of the tool, the names of all tools, the URLs opened, and the tokens.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitResult
from pydantic import AnyUrl

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "lab"))

from browser import Browser  # noqa: E402

#: MCP 2025-11-25: the call needs a visit to a URL first.
URL_ELICITATION_REQUIRED = -32042


class Visits:
    """The URLs that were opened, each in the browser of this person."""

    def __init__(self, key: str, account: str) -> None:
        self.urls: list[str] = []
        self._browser = Browser(key or os.environ.get("BROWSER_PASSWORD", ""), {"account": account})

    async def open(self, url: str) -> str:
        """The URL at which the browser ended."""
        self.urls.append(url)
        page = await asyncio.to_thread(self._browser.visit, url)
        if page.status >= 400:
            raise RuntimeError(f"{page.status} at {page.url}: {page.text}")
        return page.url

    async def elicited(self, _: Any, params: Any) -> ElicitResult:
        await self.open(params.url)
        return ElicitResult(action="accept")


class Memory(TokenStorage):
    """Keeps tokens and registration for this run."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens
        self.seen += [token for token in (tokens.access_token, tokens.refresh_token) if token]

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def own_login(ask: dict[str, Any], visits: Visits, memory: Memory) -> OAuthClientProvider:
    """The SDK's OAuth client for an endpoint, whose redirects end at `callback`."""
    ended: list[str] = []

    async def redirect(authorization_url: str) -> None:
        ended.append(await visits.open(authorization_url))

    async def answer() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(ended.pop()).query)
        return AuthorizationCodeResult(
            code=query["code"][0], state=query["state"][0], iss=query.get("iss", [None])[0]
        )

    metadata = OAuthClientMetadata(
        client_name="python",
        redirect_uris=[AnyUrl(ask["callback"])],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        application_type="native",
    )
    return OAuthClientProvider(
        server_url=ask["url"],
        client_metadata=metadata,
        storage=memory,
        redirect_handler=redirect,
        callback_handler=answer,
        client_metadata_url=ask.get("document"),
    )


async def revoke(login: OAuthClientProvider, memory: Memory) -> None:
    """Ends the login at the authorization server."""
    assert login.context.oauth_metadata is not None and memory.tokens is not None and memory.client is not None
    form = {"token": memory.tokens.refresh_token, "client_id": memory.client.client_id}
    async with httpx2.AsyncClient() as http:
        answer = await http.post(str(login.context.oauth_metadata.revocation_endpoint), data=form)
        answer.raise_for_status()


async def main(ask: dict[str, Any]) -> None:
    visits, memory = Visits(ask.get("key", ""), ask["account"]), Memory()
    login = None if "key" in ask else own_login(ask, visits, memory)
    headers = {"authorization": f"Bearer {ask['key']}"} if "key" in ask else None
    http = httpx2.AsyncClient(auth=login, headers=headers, timeout=30)
    transport = streamable_http_client(url=ask["url"], http_client=http)
    found: dict[str, Any] = {"urls": visits.urls, "secrets": memory.seen}
    async with Client(transport, mode=ask["mode"], elicitation_callback=visits.elicited) as client:
        for step in ask.get("steps", ["call"]):
            if step == "refresh":
                assert login is not None
                login.context.token_expiry_time = 1
            elif step == "revoke":
                assert login is not None
                await revoke(login, memory)
            else:
                found |= await called(client, ask["tool"], visits)
        found["tools"] = [tool.name for tool in (await client.list_tools()).tools]
    print(json.dumps(found))


async def called(client: Client, tool: str, visits: Visits) -> dict[str, Any]:
    """What the tool answers, after the visit to a URL if one is needed."""
    try:
        result = await client.call_tool(tool, {})
    except MCPError as error:
        if error.error.code != URL_ELICITATION_REQUIRED:
            raise
        for elicitation in error.error.data["elicitations"]:
            await visits.open(elicitation["url"])
        result = await client.call_tool(tool, {})
    text = "".join(getattr(part, "text", "") for part in result.content)
    return {"text": text, "failed": bool(result.is_error)}


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))

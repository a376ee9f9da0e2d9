"""The client of the Python SDK: sent to a login by URL elicitation, or with a login to the gateway itself.

    peer-python python_sdk.py '{"url": …, "key": …, "mode": "auto" | "legacy", "account": …, "tool": …}'

With a `key`, the gateway asks for the login of a server, and a browser opens the URL that the elicitation names. Without,
the SDK's own OAuth client gets a token for the gateway. Prints one JSON line: the text of the tool, and the URLs opened.
"""

from __future__ import annotations

import asyncio
import json
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
        self._browser = Browser(key, {"account": account})

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

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def own_login(url: str, visits: Visits, callback: str) -> OAuthClientProvider:
    """The SDK's OAuth client for the endpoint `url`, whose redirects end at `callback`."""
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
        redirect_uris=[AnyUrl(callback)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        application_type="native",
    )
    return OAuthClientProvider(
        server_url=url, client_metadata=metadata, storage=Memory(), redirect_handler=redirect, callback_handler=answer
    )


async def main(ask: dict[str, Any]) -> None:
    visits = Visits(ask.get("key", ""), ask["account"])
    if "key" in ask:
        http = httpx2.AsyncClient(headers={"authorization": f"Bearer {ask['key']}"}, timeout=30)
    else:
        http = httpx2.AsyncClient(auth=own_login(ask["url"], visits, ask["callback"]), timeout=30)
    transport = streamable_http_client(url=ask["url"], http_client=http)
    async with Client(transport, mode=ask["mode"], elicitation_callback=visits.elicited) as client:
        try:
            result = await client.call_tool(ask["tool"], {})
        except MCPError as error:
            if error.error.code != URL_ELICITATION_REQUIRED:
                raise
            for elicitation in error.error.data["elicitations"]:
                await visits.open(elicitation["url"])
            result = await client.call_tool(ask["tool"], {})
        text = "".join(getattr(part, "text", "") for part in result.content)
        print(json.dumps({"text": text, "failed": bool(result.is_error), "urls": visits.urls}))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))

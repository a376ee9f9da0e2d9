"""What the suite starts as *client under test* where a scenario needs authorization: a gateway with `auth: oauth` in front
of the suite's server, a browser that logs in through it, and a caller without any OAuth of its own.

Arguments and environment as for `client.py`. The suite says by `MCP_CONFORMANCE_CONTEXT` which client is registered by
hand. Exit code 0: the calls succeeded. A scenario where they must not is judged by the suite alone.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from browser import Browser, Lost
from programs import SETTLED, Gateway

#: The client id metadata document that the suite knows. It is used only where the authorization server wants one.
CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"
#: Logins until this caller gives up. The suite wants a client to stop after three.
MOST_LOGINS = 6
#: Seconds for a server to reach a settled state after a login.
PATIENCE = 8
REVISION = "2026-07-28"
#: Secrets of the suite's context are given to the gateway by these variables.
VARIABLES = ("client_secret", "private_key_pem", "valid_jwt", "idp_id_token")


def settings(scenario: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """The login settings for a scenario, with references in the place of secrets."""
    secret = {name: f"${{SUITE_{name.upper()}}}" for name in VARIABLES if name in context}
    registered = {"client_id": context["client_id"]} if "client_id" in context else {}
    if "client_secret" in secret:
        registered["client_secret"] = secret["client_secret"]
    machine = {
        "auth/client-credentials-basic": {"grant": "client_credentials"},
        "auth/client-credentials-jwt": {"grant": "client_credentials", "token_endpoint_auth": "private_key_jwt"},
        "auth/enterprise-managed-authorization": {"grant": "jwt_bearer"},
        "auth/wif-jwt-bearer": {"grant": "jwt_bearer", "token_endpoint_auth": "none"},
    }.get(scenario, {})
    if "private_key_pem" in secret:
        machine["private_key"] = secret["private_key_pem"]
    if "valid_jwt" in secret:
        machine["assertion"] = secret["valid_jwt"]
    if "idp_id_token" in secret:
        machine["identity_provider"] = {
            "token_endpoint": context["idp_token_endpoint"],
            "client_id": context["idp_client_id"],
            "id_token": secret["idp_id_token"],
        }
    return {**(registered or {"client_metadata_url": CLIENT_METADATA}), **machine}


def environment(context: Mapping[str, Any]) -> dict[str, str]:
    """Our environment, with the secrets of the context and without the context itself."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MCP_CONFORMANCE_")}
    return {**ours, **{f"SUITE_{name.upper()}": context[name] for name in VARIABLES if name in context}}


@dataclass(frozen=True)
class Answer:
    """An answer to a REST or MCP request."""

    status: int
    body: Any


def ask(method: str, url: str, message: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
    """One request; the body of the answer is JSON, or the last event of a stream."""
    body = None if message is None else json.dumps(message).encode()
    fields = {"accept": "application/json, text/event-stream", "content-type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, body, fields, method=method)
    try:
        with urllib.request.urlopen(request, timeout=25) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    events = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    text = events[-1] if events else text
    return Answer(status, json.loads(text) if text else None)


class Caller:
    """A client of 2026-07-28 that knows its endpoint, and nothing of authorization."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def tools(self) -> list[str]:
        listed = self._request("tools/list", {}).get("result", {})
        return [tool["name"] for tool in listed.get("tools", [])]

    def call(self, tool: str) -> bool:
        """Whether the tool gave a result that is no error."""
        answer = self._request("tools/call", {"name": tool, "arguments": {}}, {"Mcp-Name": tool})
        print(f"{tool}: {json.dumps(answer)}", file=sys.stderr)
        result = answer.get("result", {})
        return result.get("resultType", "complete") == "complete" and bool(result) and not result.get("isError")

    def _request(self, method: str, params: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        meta = {
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        fields = {"MCP-Protocol-Version": REVISION, "Mcp-Method": method, **(headers or {})}
        return ask("POST", self._endpoint, message, fields).body


class Person:
    """Somebody who logs in whenever the gateway says that a login is needed."""

    def __init__(self, base: str) -> None:
        self._base, self._browser, self._left = base, Browser(), MOST_LOGINS

    def log_in_while_needed(self) -> bool:
        """Logs in until the server needs no login. False: a login did not succeed, or the person gave up."""
        while self._state() == "login_required":
            if self._left == 0 or not self._log_in():
                return False
        return True

    def _log_in(self) -> bool:
        self._left -= 1
        answer = ask("POST", f"{self._base}/api/v1/mcp/servers/suite/login")
        print(f"login: {answer}", file=sys.stderr)
        if answer.status >= 400:
            return False
        page = self._browser.visit(answer.body["url"])
        print(f"page: {page.status} {page.text}", file=sys.stderr)
        return page.status < 400 and self._is_over()

    def _is_over(self) -> bool:
        """Waits for the state that comes of a login, which the page may precede."""
        deadline = time.monotonic() + PATIENCE
        while self._state() not in SETTLED and time.monotonic() < deadline:
            time.sleep(0.05)
        return True

    def _state(self) -> str:
        listed = ask("GET", f"{self._base}/api/v1/mcp/servers").body["servers"]
        state: str = next(server["state"] for server in listed if server["name"] == "suite")
        return state


def play(base: str, endpoint: str) -> bool:
    """Lists and calls the first tool, with as many logins as the gateway asks for."""
    person, caller = Person(base), Caller(endpoint)
    for _ in range(MOST_LOGINS):
        if not person.log_in_while_needed():
            return False
        tools = caller.tools()
        if tools and caller.call(tools[0]):
            return True
    return False


def main() -> int:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    folder = Path(tempfile.mkdtemp(prefix="client-", dir=os.environ["SWITCHYARD_LOGS"]))
    entry = {"url": sys.argv[-1], "auth": {"oauth": settings(scenario, context)}}
    binary = Path(os.environ["SWITCHYARD_BINARY"])
    with Gateway(binary, {"suite": entry}, folder / "gateway.log", environment(context)) as gateway:
        try:
            return 0 if play(gateway.base, f"{gateway.url}/suite") else 1
        except Lost as error:
            print(f"login_client: {error}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())

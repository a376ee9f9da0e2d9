"""What the suite starts as *client under test* where a scenario needs authorization: a gateway with `auth: oauth` in front
of the suite's server, a browser that logs in through it, and a caller without any OAuth of its own.

Arguments and environment as for `client.py`. The suite says by `MCP_CONFORMANCE_CONTEXT` which client is registered by
hand. Exit code 0: the calls succeeded. A scenario where they must not is judged by the suite alone.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "lab"))

from browser import Browser, Lost  # noqa: E402
from caller import Caller, text_of  # noqa: E402
from programs import SETTLED, Gateway  # noqa: E402

#: The client id metadata document that the suite knows. It is used only where the authorization server wants one.
CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"
#: Logins until this caller gives up. The suite wants a client to stop after three.
MOST_LOGINS = 6
#: Seconds for a server to reach a settled state after a login.
PATIENCE = 8
#: Seconds in which the gateway begins to use a login.
REACTION = 1
#: The URL of a login in the answer to a call.
LINK = re.compile(r"http://[^\s\"\\<>]+/oauth/start\?[^\s\"\\<>]+")
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
    """The environment of this program, with the secrets of the context and without the context itself."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MCP_CONFORMANCE_")}
    return {**inherited, **{f"SUITE_{name.upper()}": context[name] for name in VARIABLES if name in context}}


class Person:
    """Somebody who logs in whenever a state or a failed call says that a login is needed."""

    def __init__(self, base: str) -> None:
        self._api, self._browser, self._left = Caller(base), Browser(), MOST_LOGINS

    def log_in_while_needed(self) -> bool:
        """Logs in until the server needs no login. False: a login did not succeed, or the person gave up."""
        while self._state() == "login_required":
            answer = self._api.ask("POST", "/api/v1/mcp/servers/suite/login")
            print(f"login: {answer}", file=sys.stderr)
            if answer.status >= 400 or not self.visit(answer.body["url"]):
                return False
        return True

    def visit(self, url: str) -> bool:
        """Opens the URL of a login. False: the login did not succeed, or the person gave up."""
        if self._left == 0:
            return False
        self._left -= 1
        page = self._browser.visit(url)
        print(f"page: {page.status} {page.text}", file=sys.stderr)
        if page.status >= 400:
            return False
        self._wait_for_connection()
        return True

    def _wait_for_connection(self) -> None:
        """Waits for the state after a login, which the page precedes. A login may be required again, or still."""
        began = time.monotonic()
        while (waited := time.monotonic() - began) < PATIENCE:
            state = self._state()
            if state in SETTLED and (state != "login_required" or waited > REACTION):
                return
            time.sleep(0.02)

    def _state(self) -> str:
        return str(self._api.servers()["suite"]["state"])


def play(base: str) -> bool:
    """Lists and calls the first tool, with as many logins as the gateway asks for."""
    person, caller = Person(base), Caller(base)
    for _ in range(MOST_LOGINS):
        if not person.log_in_while_needed():
            return False
        tools = caller.tools("suite")
        answer = caller.call("suite", tools[0]) if tools else {}
        print(f"{tools}: {json.dumps(answer)}", file=sys.stderr)
        if text_of(answer) is not None:
            return True
        if (link := LINK.search(json.dumps(answer))) and not person.visit(link[0]):
            return False
    return False


def main() -> int:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    folder = Path(tempfile.mkdtemp(prefix="client-", dir=os.environ["SWITCHYARD_LOGS"]))
    entry = {"url": sys.argv[-1], "auth": {"oauth": settings(scenario, context)}}
    binary = Path(os.environ["SWITCHYARD_BINARY"])
    with Gateway(binary, {"suite": entry}, folder / "gateway.log", environment(context)) as gateway:
        try:
            return 0 if play(gateway.base) else 1
        except Lost as error:
            print(f"login_client: {error}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())

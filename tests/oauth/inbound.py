"""The gateway as a protected server: clients that get a token for it from the authorization server, tokens that are
accepted by the settings of `docs/login-services.md`, and the reasons for others."""

from __future__ import annotations

import base64
import json
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lab import HERE, MACHINE_SECRET, NOTES, Caller, Gateway, Lab, callback, check, free_port, registry, until

#: The audience of the gateway in the checks of single tokens.
AUDIENCE = "https://gateway.example.org/mcp"

#: The client of each SDK: its program, and its file.
CLIENTS = {"python": ("peer-python", "python_sdk.py"), "typescript": ("peer-node", "typescript_sdk.mjs")}


@contextmanager
def gateway(lab: Lab) -> Iterator[str]:
    """Starts a gateway that accepts tokens of the authorization server, and gives the URL that they are for."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp/machine"
    settings = {
        "auth_mode": "jwt",
        "anonymous_role": "reader",
        "jwt": {
            "issuer": lab.issuer,
            "audience": url,
            "algorithm": "RS256",
            "jwks_url": f"{lab.issuer}/jwks",
            "roles_claim": "scope",
        },
    }
    servers = {"machine": registry(lab.notes_url)["machine"]}
    env = {**lab.peers.env(), "MACHINE_SECRET": MACHINE_SECRET}
    with Gateway(lab.binary, servers, lab.out / "gateway_with_tokens.log", env, settings, port):
        yield url


def _gets_in(lab: Lab, client: str, **more: Any) -> None:
    program, file = CLIENTS[client]
    with gateway(lab) as url, callback() as end:
        found = lab.client(program, file, {"url": url, "callback": end, "account": "ann", "tool": "read_note", **more})
    check(found["text"] == NOTES["machine"] and not found["failed"], f"the client got {found}")
    check(len(found["urls"]) == 1, f"the client opened {found['urls']}")


def the_python_sdk_gets_in(lab: Lab) -> None:
    _gets_in(lab, "python", mode="auto")


def the_typescript_sdk_gets_in(lab: Lab) -> None:
    _gets_in(lab, "typescript", browser=[sys.executable, str(HERE.parent / "lab" / "browser.py")])


def _door(lab: Lab, **more: Any) -> Gateway:
    """A gateway with the settings for "another service" of the page, for the authorization server. It has no servers."""
    jwt = {
        "issuer": lab.issuer,
        "audience": AUDIENCE,
        "algorithms": ["RS256", "PS256"],
        "roles_claim": "scope",
        "role_map": {"mcp:operate": "superuser", "mcp:call": "caller", "mcp:list": "reader"},
        **more,
    }
    settings = {"auth_mode": "jwt", "anonymous_role": "reader", "jwt": jwt}
    return Gateway(lab.binary, {}, lab.out / "gateway_at_the_door.log", settings=settings)


def _token(lab: Lab, scope: str, resource: str = AUDIENCE) -> str:
    """A token of the machine. Without a resource it is opaque."""
    form = {"grant_type": "client_credentials", "scope": scope, **({"resource": resource} if resource else {})}
    credential = base64.b64encode(f"machine:{MACHINE_SECRET}".encode()).decode()
    request = urllib.request.Request(f"{lab.issuer}/token", urllib.parse.urlencode(form).encode())
    request.add_header("authorization", f"Basic {credential}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(json.load(answer)["access_token"])


def _status(gateway: Gateway, token: str, method: str = "GET", path: str = "servers/none/login") -> int:
    return Caller(gateway.base, token).ask(method, f"/api/v1/mcp/{path}").status


def a_scope_of_a_token_is_the_role_that_the_map_names(lab: Lab) -> None:
    with _door(lab) as gateway:
        # A caller gets to know that there is no such server, and a superuser may reload.
        for scope, sees, reloads in (("mcp:list", 403, 403), ("mcp:call", 404, 403), ("mcp:operate mcp:list", 404, 200)):
            token = _token(lab, scope)
            until("the keys are fetched", lambda token=token: _status(gateway, token, path="tools") == 200)
            found = (_status(gateway, token), _status(gateway, token, "POST", "reload"))
            check(found == (sees, reloads), f"with the scope {scope} the gateway answers {found}")


def a_refused_token_has_its_reason_in_the_log(lab: Lab) -> None:
    good = _token(lab, "mcp:call")
    header = base64.urlsafe_b64encode(json.dumps({"alg": "RS256", "kid": "two"}).encode()).decode().rstrip("=")
    foreign = ".".join((header, *good.split(".")[1:]))
    keys, no_keys, slash = {"jwks_url": f"{lab.issuer}/jwks"}, {"jwks_url": f"{lab.issuer}/none"}, {"issuer": f"{lab.issuer}/"}
    for token, settings, status, reason in (
        (good, {**keys, **slash}, 401, "foreign issuer"),
        # The metadata is of another issuer too, so there are no keys.
        (good, slash, 401, "unknown token key"),
        (_token(lab, "mcp:call", "https://elsewhere.example.org/"), {}, 401, "foreign audience"),
        (_token(lab, "mcp:call", ""), {}, 401, "malformed token"),
        (foreign, {}, 401, "unknown token key"),
        (good, no_keys, 503, "the keys of the login service are not known, or not current"),
        (_token(lab, "notes:read"), {}, 403, "the token names no role that is known here"),
        (good, {"azp": ["another"]}, 401, "issued to a client that is not listed in `azp`"),
        (good, {"azp": ["machine"]}, 404, None),
    ):
        with _door(lab, **settings) as gateway:
            log = lab.out / "gateway_at_the_door.log"
            has_keys = settings not in (slash, no_keys)
            outcome = f"the keys of the login service {'were' if has_keys else 'cannot be'} fetched"
            until(outcome, lambda log=log, outcome=outcome: outcome in log.read_text())
            found = _status(gateway, token)
            check(found == status, f"{reason}: the status is {found}")
            if reason:
                until(f"the log has: {reason}", lambda log=log, reason=reason: f'{reason}"' in log.read_text())


CHECKS = (
    the_python_sdk_gets_in,
    the_typescript_sdk_gets_in,
    a_scope_of_a_token_is_the_role_that_the_map_names,
    a_refused_token_has_its_reason_in_the_log,
)

"""What schemathesis does beyond its own checks: it uses names that exist, and looks at the codes of failures."""

from typing import Any

import schemathesis

#: Names of the gateway that `lab.py` starts.
SERVERS = ("issues", "handbook", "gone", "accounts")
TOOLS = ("create_issue", "refuse", "book")
#: Codes of failures that are not the gateway's own. A random request may be answered with no other 5xx.
OF_SERVERS = {"server_unavailable", "connection_failed", "circuit_open", "timed_out", "auth_failed", "login_required"}


def known(names: tuple[str, ...], given: Any) -> Any:
    """One of the names in place of most valid texts, so that a request gets past the lookup of its name."""
    is_replaced = isinstance(given, str) and 0 < len(given) < 256 and sum(map(ord, given)) % 4
    return names[len(given) % len(names)] if is_replaced else given


@schemathesis.hook
def map_path_parameters(context: Any, parameters: Any) -> Any:
    if isinstance(parameters, dict) and "name" in parameters:
        is_prompt = "/prompts/" in context.operation.path
        parameters["name"] = known(("summarize",) if is_prompt else SERVERS, parameters["name"])
    return parameters


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    if isinstance(body, dict) and isinstance(body.get("tool"), str):
        body = {**body, "tool": known(TOOLS, body["tool"])}
        if isinstance(body.get("server"), str):
            body["server"] = known(SERVERS, body["server"])
    elif isinstance(body, dict) and isinstance(body.get("uri"), str):
        body = {**body, "uri": known(("file:///notes.txt",), body["uri"])}
    return body


@schemathesis.check
def failures_are_those_of_servers(context: Any, response: Any, case: Any) -> None:
    """A 5xx names a server that cannot be reached or used."""
    if response.status_code >= 500 and not case.operation.path.startswith("/health"):
        document = response.json()
        assert document["code"] in OF_SERVERS and document.get("server"), document


@schemathesis.check
def every_answer_has_the_id_of_its_request(context: Any, response: Any, case: Any) -> None:
    """The header, and the same id in a problem document."""
    [id] = response.headers["x-request-id"]
    if response.headers.get("content-type", [""])[0] == "application/problem+json":
        assert response.json()["request_id"] == id, response.json()

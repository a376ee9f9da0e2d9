"""Uses the generated Python client as a program would: typed answers, typed problems, pages.

`client.py BASE CALLER_KEY ADMIN_KEY` ends with a line that names what it did. Keys are empty at a gateway without
authentication. `mypy --strict` checks this file together with the client. The generator makes no reader of event streams, so they are
read by the client in TypeScript.
"""

import sys
from typing import Any, TypeVar

import httpx
from switchyard_client import AuthenticatedClient, Client
from switchyard_client.api.circuit_breakers import list_circuit_breakers, reset_circuit_breaker
from switchyard_client.api.gateway import get_configuration, health, live, metrics, ready, reload
from switchyard_client.api.resources_and_prompts import (
    get_prompt, list_prompts, list_resource_templates, list_resources, read_resource,
)  # fmt: skip
from switchyard_client.api.servers import (
    approve_tools, disable_server, enable_server, get_login, get_server, list_servers, log_in, reconnect_server,
    server_health,
)  # fmt: skip
from switchyard_client.api.tools import call_tool, list_server_tools, list_tools
from switchyard_client.models import (
    BreakerState, CallAnswer, CallCode, CallRequest, CircuitBreaker, CircuitBreakerList, Code, Health, JsonObject,
    LoadedConfiguration, LoginLink, OfferList, Overall, Probe, ProbeStatus, Problem, PromptRequest, ReadAnswer,
    ReadRequest, Reloaded, Server, ServerList, ServerState, ToolList, TransportName,
)  # fmt: skip
from switchyard_client.types import UNSET, Response, Unset

Api = AuthenticatedClient | Client
T = TypeVar("T")


def have(kind: type[T], value: object) -> T:
    """The value, which must have this type."""
    assert isinstance(value, kind), f"not a {kind.__name__}: {value}"
    return value


def problem(response: Response[Any], status: int, code: Code) -> Problem:
    """The problem that a response must have."""
    found = have(Problem, response.parsed)
    assert (int(response.status_code), found.status, found.code) == (status, status, code), found
    assert str(found.request_id) == response.headers["x-request-id"] and found.title and found.detail and found.hint
    assert found.type_ == f"/docs/errors#{code.value}", found.type_
    return found


def request(tool: str, server: str = "issues", **arguments: Any) -> CallRequest:
    return CallRequest(tool=tool, server=server, arguments=JsonObject.from_dict(arguments), timeout=30)


def servers(api: Api) -> None:
    listed = have(ServerList, list_servers.sync(client=api)).servers
    assert [server.name for server in listed] == ["issues", "handbook", "gone", "accounts"], listed
    issues = have(Server, get_server.sync("issues", client=api))
    assert (issues.transport, issues.state, issues.breaker) == (TransportName.STDIO, ServerState.READY, BreakerState.CLOSED)
    assert (issues.tool_count, issues.prompt_count, issues.template_count) == (3, 1, 1) and issues.url is UNSET
    assert issues.last_error is None and issues.counters.calls >= 0 and issues.changed_tools is UNSET
    assert listed[2].state == ServerState.FAILED and have(str, listed[2].last_error)
    found = problem(get_server.sync_detailed("isues", client=api), 404, Code.SERVER_NOT_FOUND)
    assert found.nearest == ["issues"] and found.retryable is False, found
    checked = have(Health, server_health.sync(client=api, check=True))
    assert checked.status == Overall.DEGRADED and checked.servers[0].latency_ms is not None, checked


def tools(api: Api) -> None:
    whole = list_tools.sync_detailed(client=api)
    everything = have(ToolList, whole.parsed)
    assert everything.next_cursor is UNSET and len(everything.tools) > 3
    again = list_tools.sync_detailed(client=api, if_none_match=whole.headers["etag"])
    assert int(again.status_code) == 304 and again.parsed is None, again
    of_server: list[str] = []
    cursor: str | Unset = UNSET
    for _ in range(3):
        page = have(ToolList, list_tools.sync(client=api, server="issues", limit=1, cursor=cursor))
        of_server += [tool.tool for tool in page.tools]
        cursor = page.next_cursor
    assert cursor is UNSET and of_server == ["create_issue", "refuse", "book"], of_server
    found = have(ToolList, list_tools.sync(client=api, query="ISSUE title")).tools
    assert [(tool.server, tool.name) for tool in found][:1] == [("issues", "create_issue")], found
    assert have(dict, found[0].definition["inputSchema"])["required"] == ["title"]
    assert len(have(ToolList, list_server_tools.sync("issues", client=api)).tools) == 3
    problem(list_tools.sync_detailed(client=api, limit=0), 400, Code.INVALID_REQUEST)


def calls(api: Api) -> None:
    called = call_tool.sync_detailed(client=api, body=request("create_issue", title="The door"))
    answer = have(CallAnswer, called.parsed)
    assert answer.success and (answer.server, answer.tool) == ("issues", "create_issue"), answer
    assert (answer.server_name, answer.tool_name) == ("issues", "create_issue") and answer.code is UNSET
    assert answer.structured_content == answer.data == {"issue_id": "issue The door"}, answer
    assert answer.content[0]["type"] == "text" and str(answer.request_id) == called.headers["x-request-id"]
    assert 0 < answer.execution_time_ms < 30_000 and round(answer.execution_time_ms, 3) == answer.execution_time_ms
    refused = have(CallAnswer, call_tool.sync(client=api, body=request("refuse")))
    assert (refused.success, refused.code, refused.error) == (False, CallCode.TOOL_ERROR, "the title is taken"), refused
    assert refused.retryable is False and refused.structured_content is UNSET and have(str, refused.hint)
    asked = have(CallAnswer, call_tool.sync(client=api, body=request("book")))
    assert (asked.success, asked.error) == (False, "nobody answered"), "a plain call cannot be asked"
    unknown = problem(call_tool.sync_detailed(client=api, body=request("crate_issue")), 404, Code.TOOL_NOT_FOUND)
    assert (unknown.server, unknown.tool, unknown.nearest) == ("issues", "crate_issue", ["create_issue"]), unknown
    assert unknown.available is UNSET and unknown.retry_after_ms is UNSET
    body = CallRequest.from_dict({"tool": "book", "timeout": 0})
    wrong = problem(call_tool.sync_detailed(client=api, body=body), 400, Code.INVALID_REQUEST)
    assert have(list, wrong.errors)[0].field == "timeout", wrong


def breakers(api: Api) -> None:
    for _ in range(6):
        failed = have(Problem, call_tool.sync(client=api, body=request("any", server="gone")))
        assert failed.retryable and failed.code in (Code.CONNECTION_FAILED, Code.CIRCUIT_OPEN), failed
    listed = have(CircuitBreakerList, list_circuit_breakers.sync(client=api)).circuit_breakers
    gone = next(breaker for breaker in listed if breaker.server == "gone")
    assert (gone.probe_in_ms is None) == (gone.state != BreakerState.OPEN), gone
    closed = have(CircuitBreaker, reset_circuit_breaker.sync("gone", client=api))
    assert (closed.state, closed.failure_count, closed.probe_in_ms) == (BreakerState.CLOSED, 0, None), closed
    problem(reset_circuit_breaker.sync_detailed("gon", client=api), 404, Code.SERVER_NOT_FOUND)


def offers(api: Api) -> None:
    notes = have(OfferList, list_resources.sync(client=api, server="issues")).items
    assert [note.name for note in notes] == ["file:///notes.txt"] and notes[0].definition["mimeType"] == "text/plain"
    templates = have(OfferList, list_resource_templates.sync(client=api)).items
    assert [template.name for template in templates] == ["issue:///{id}"], templates
    read = have(ReadAnswer, read_resource.sync(client=api, body=ReadRequest(uri="file:///notes.txt")))
    assert read.server == "issues" and read.result["contents"][0]["text"] == "the harvest was good", read
    assert round(read.duration_ms, 3) == read.duration_ms
    assert [prompt.name for prompt in have(OfferList, list_prompts.sync(client=api)).items] == ["summarize"]
    filled = PromptRequest(arguments=JsonObject.from_dict({"topic": "doors"}))
    prompt = have(ReadAnswer, get_prompt.sync("summarize", client=api, body=filled))
    assert prompt.result["messages"][0]["content"]["text"] == "Summarize doors", prompt
    problem(read_resource.sync_detailed(client=api, body=ReadRequest(uri="file:///no")), 404, Code.NOT_FOUND)


def operations(api: Api) -> None:
    assert have(Server, reconnect_server.sync("issues", client=api)).state == ServerState.READY
    assert have(Server, disable_server.sync("issues", client=api)).state == ServerState.DISABLED
    problem(call_tool.sync_detailed(client=api, body=request("book")), 503, Code.SERVER_UNAVAILABLE)
    assert have(Server, enable_server.sync("issues", client=api)).state == ServerState.READY
    assert have(Server, approve_tools.sync("issues", client=api, current=True)).changed_tool_count == 0
    assert "issues" in have(Reloaded, reload.sync(client=api)).unchanged
    shown = have(LoadedConfiguration, get_configuration.sync(client=api))
    assert "mcp_servers" in shown.configuration and shown.loaded_at.tzinfo is not None
    assert have(LoginLink, log_in.sync("accounts", client=api)).url
    problem(get_login.sync_detailed("issues", client=api), 409, Code.LOGIN_NOT_POSSIBLE)
    assert "switchyard_" in have(str, metrics.sync(client=api))


def public(api: Api) -> None:
    assert have(Probe, live.sync(client=api)).status == ProbeStatus.ALIVE
    assert have(Probe, ready.sync(client=api)).status == ProbeStatus.READY
    assert health.sync_detailed(client=api).parsed is not None


def rights(base: str, caller: Api) -> None:
    """Nobody without a key, and nothing beyond the role of a key."""
    with Client(base_url=base) as nobody:
        public(nobody)
        found = list_servers.sync_detailed(client=nobody)
        problem(found, 401, Code.UNAUTHORIZED)
        assert found.headers["www-authenticate"].startswith("Bearer")
    with AuthenticatedClient(base_url=base, token="swy_wrong") as wrong:
        problem(call_tool.sync_detailed(client=wrong, body=request("refuse")), 401, Code.UNAUTHORIZED)
    problem(reset_circuit_breaker.sync_detailed("issues", client=caller), 403, Code.FORBIDDEN)


def client(base: str, key: str) -> Api:
    """A client that takes no status that the document does not describe."""
    timeout = httpx.Timeout(60)
    if not key:
        return Client(base_url=base, timeout=timeout, raise_on_unexpected_status=True)
    return AuthenticatedClient(base_url=base, token=key, timeout=timeout, raise_on_unexpected_status=True)


def main() -> None:
    base, caller_key, admin_key = sys.argv[1:4]
    caller, admin = client(base, caller_key), client(base, admin_key)
    for step in (public, servers, tools, calls, offers):
        step(caller)
    for step in (breakers, operations):
        step(admin)
    if caller_key:
        rights(base, caller)
    print("every typed answer was as the document describes it")


if __name__ == "__main__":
    main()

"""How people log in: REST, and elicitation by the client of an SDK. Each function is one check."""

from __future__ import annotations

from contextlib import ExitStack

from lab import HERE, NOTES, Browser, Caller, Gateway, Lab, check, free_port, start_listening, text_of, until
from load import Callers


def a_person_logs_in_by_rest(lab: Lab) -> None:
    ann = lab.principals["ann"]
    page = ann.log_in()
    check(page.status == 200, f"the login ends with {page.status}: {page.text}")
    status = until("the login is there", lambda: (now := ann.login())["state"] == "logged_in" and now)
    check(status["account"] == "ann@example.com", f"the account is shown as {status}")
    check(until("ann can call", ann.read) == NOTES["ann"], f"ann reads {ann.read()}")
    check(lab.principals["ben"].read() is None, "ben can call with the login of ann")


def a_modern_client_is_sent_to_the_login(lab: Lab) -> None:
    _elicited(lab, "auto")


def a_legacy_client_is_sent_to_the_login(lab: Lab) -> None:
    _elicited(lab, "legacy")


def _elicited(lab: Lab, mode: str) -> None:
    ben = lab.principals["ben"]
    ben.log_out()
    ask = {"url": f"{lab.base}/mcp/notes", "key": ben.key, "mode": mode, "account": "ben", "tool": "read_note"}
    found = lab.client("peer-python", "python_sdk.py", ask)
    check(found["text"] == NOTES["ben"] and not found["failed"], f"the client got {found}")
    check(len(found["urls"]) == 1, f"the client was sent to {found['urls']}")


def a_machine_needs_no_login(lab: Lab) -> None:
    found = until("the machine can call", lambda: lab.principals["ann"].read("machine"))
    check(found == NOTES["machine"], f"the machine reads {found}")


def two_people_see_only_their_own_data(lab: Lab) -> None:
    people = [lab.principals[name] for name in ("ann", "ben")]
    for person in people:
        person.ensure_logged_in()
    callers = Callers(people, number=16, limit=1000)
    callers.start()
    callers.join()
    check(callers.sum() == 1000, f"{callers.sum()} calls were made")
    check(not callers.wrong, f"{len(callers.wrong)} calls are wrong, such as {callers.wrong[:2]}")


def a_server_may_be_its_own_login_service(lab: Lab) -> None:
    with ExitStack() as stack:
        servers = {}
        for kind in ("memory", "sdk", "github"):
            port, log = free_port(), lab.out / f"{kind}.log"
            words = [lab.peers.program("peer-python"), str(HERE / "own_login_service.py"), kind, str(port)]
            stack.enter_context(start_listening(kind, words, port, log, lab.peers))
            servers[kind] = {"url": f"http://127.0.0.1:{port}/mcp", "auth": "oauth"}
        gateway = stack.enter_context(Gateway(lab.binary, servers, lab.out / "own.log", settings={"auth_mode": "none"}))
        caller = Caller(gateway.base)
        for kind in servers:
            login = caller.ask("POST", f"/api/v1/mcp/servers/{kind}/login")
            check(login.status < 300, f"{kind}: a login is refused: {login}")
            page = Browser().visit(login.body["url"])
            check(page.status == 200, f"{kind}: the login ends at {page.url} with {page.status}: {page.text}")
            found = until(f"{kind} can be called", lambda: text_of(caller.call(kind, "read_note")))
            check(found == f"{kind}: a note", f"{kind} answers {found}")


CHECKS = (
    a_machine_needs_no_login,
    a_person_logs_in_by_rest,
    a_modern_client_is_sent_to_the_login,
    a_legacy_client_is_sent_to_the_login,
    two_people_see_only_their_own_data,
    a_server_may_be_its_own_login_service,
)

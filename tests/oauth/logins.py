"""How people log in, and how long that lasts: REST, and elicitation by the client of an SDK. Each function is one check."""

from contextlib import ExitStack

from lab import HERE, NOTES, Browser, Caller, Gateway, Lab, check, free_port, start_listening, text_of, until

#: Seconds that a token lives in the check of renewals. A gateway renews it two seconds before, so after one.
SHORT = 3


def a_person_logs_in_by_rest(lab: Lab) -> None:
    ann = lab.principals["ann"]
    page = ann.log_in()
    check(page.status == 200, f"the login ends with {page.status}: {page.text}")
    status = until("the login is there", lambda: (now := ann.login())["state"] == "logged_in" and now)
    check(status["account"] == "ann@example.com", f"the account is shown as {status}")
    check(until("ann can call", ann.read) == NOTES["ann"], f"ann reads {ann.read()}")
    check(lab.principals["ben"].read() is None, "ben can call with the login of ann")


def clients_of_both_eras_are_sent_to_the_login(lab: Lab) -> None:
    ben = lab.principals["ben"]
    for mode in ("auto", "legacy"):
        ben.log_out()
        ask = {"url": f"{lab.base}/mcp/notes", "key": ben.key, "mode": mode, "account": "ben", "tool": "read_note"}
        found = lab.sdk("python", ask)
        check(found["text"] == NOTES["ben"] and not found["failed"], f"the client got {found}")
        check(len(found["urls"]) == 1, f"the client was sent to {found['urls']}")


def a_machine_needs_no_login(lab: Lab) -> None:
    found = until("the machine can call", lambda: lab.principals["ann"].read("machine"))
    check(found == NOTES["machine"], f"the machine reads {found}")


def tokens_are_renewed_without_a_failed_call_and_a_logout_revokes_them(lab: Lab) -> None:
    """A refresh token works once here, and a second use ends the login."""
    ann = lab.principals["ann"]
    before, revoked = lab.token_requests("refresh_token"), lab.auth()["revocations"]
    lab.auth(SHORT)
    try:
        check(ann.log_in().status == 200, "the login of ann fails")

        def is_renewed() -> bool:
            check(ann.read() == NOTES["ann"], "a call of ann fails")
            return lab.token_requests("refresh_token") >= before + 3

        until("the token is renewed three times", is_renewed)
    finally:
        lab.auth(3600)
    answer = ann.log_out()
    check(answer.status in (200, 204), f"the logout is answered with {answer}")
    check(lab.auth()["revocations"] > revoked, "nothing was revoked")
    check(ann.login()["state"] == "login_required" and ann.read() is None, f"after the logout: {ann.login()}")
    check(until("ben can call", lab.principals["ben"].read) == NOTES["ben"], "the logout of one account ends the other")


def a_server_may_be_its_own_login_service(lab: Lab) -> None:
    with ExitStack() as stack:
        servers = {}
        for kind in ("memory", "sdk", "github"):
            port, log = free_port(), lab.out / f"{kind}.log"
            words = [lab.peers.program("peer-python"), str(HERE / "own_login_service.py"), kind, str(port)]
            stack.enter_context(start_listening(kind, words, port, log, lab.peers.env()))
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
    clients_of_both_eras_are_sent_to_the_login,
    tokens_are_renewed_without_a_failed_call_and_a_logout_revokes_them,
    a_server_may_be_its_own_login_service,
)

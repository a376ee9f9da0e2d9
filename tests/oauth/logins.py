"""How people log in: REST, command line, elicitation. Each function is one check."""

from __future__ import annotations

import re
import subprocess
from contextlib import ExitStack

from lab import HERE, NOTES, Browser, Caller, Gateway, Lab, check, free_port, start_listening, text_of, until
from load import Callers


def nobody_is_dialed_before_a_login(lab: Lab) -> None:
    ann = lab.principals["ann"]
    check(ann.login()["state"] == "login_required", f"the login is {ann.login()}")
    before = lab.notes.requests("ann")
    answer = ann.caller().call("notes", "read_note")
    check("/oauth/start?" in str(answer), f"a call without a login does not name the URL of the login: {answer}")
    check(lab.notes.requests("ann") == before, "a call without a login reached the server")


def a_person_logs_in_by_rest(lab: Lab) -> None:
    ann = lab.principals["ann"]
    page = ann.log_in()
    check(page.status == 200, f"the login ends with {page.status}: {page.text}")
    status = until("the login is there", lambda: (now := ann.login())["state"] == "logged_in" and now)
    check(status["account"] == "ann@example.com", f"the account is shown as {status}")
    check(until("ann can call", ann.read) == NOTES["ann"], f"ann reads {ann.read()}")
    check(lab.principals["ben"].read() is None, "ben can call with the login of ann")


def a_person_logs_in_by_the_command_line(lab: Lab) -> None:
    ben = lab.principals["ben"]
    env = {**lab.peers.env(), "SWITCHYARD_URL": lab.base, "SWITCHYARD_KEY": ben.key}
    with subprocess.Popen(
        [lab.binary, "login", "notes", "--no-browser"], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as program:  # fmt: skip
        check(program.stdout is not None, "there is no output")
        said = ""
        while not (found := re.search(r"http://\S+/oauth/start\?\S+", said)):
            line = program.stdout.readline()
            check(line, f"`switchyard login` ended without a URL: {said}")
            said += line
        page = ben.browser().visit(found[0])
        check(page.status == 200, f"the login ends with {page.status}: {page.text}")
        rest, _ = program.communicate(timeout=30)
    check(program.returncode == 0, f"`switchyard login` ended with {program.returncode}: {said}{rest}")
    check("ben@example.com" in rest and "notes:read" in rest, f"account and scopes are not shown: {rest}")
    check(until("ben can call", ben.read) == NOTES["ben"], f"ben reads {ben.read()}")
    out = lab.run(str(lab.binary), "logout", "notes", env=env)
    check(out.returncode == 0, f"`switchyard logout` ended with {out.returncode}: {out.stdout}{out.stderr}")
    check(ben.login()["state"] == "login_required", f"after the logout the login is {ben.login()}")
    check(ben.read() is None, "ben can still call after the logout")


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


def a_shared_login_is_for_a_superuser(lab: Lab) -> None:
    root, ann = lab.principals["root"], lab.principals["ann"]
    refused = ann.caller().ask("POST", "/api/v1/mcp/servers/shared/login")
    check(refused.status == 403, f"a caller may log in for all: {refused}")
    url = root.caller().ask("POST", "/api/v1/mcp/servers/shared/login").body["url"]
    page = Browser(root.key, {"account": "ann"}).visit(url)
    check(page.status == 200, f"the login ends with {page.status}: {page.text}")
    for name in ("ann", "ben"):
        principal = lab.principals[name]
        found = until(f"{name} can call", lambda: principal.read("shared"))
        check(found == NOTES["ann"], f"{name} reads {found} with the login for all")


def a_machine_needs_no_login(lab: Lab) -> None:
    found = until("the machine can call", lambda: lab.principals["ann"].read("machine"))
    check(found == NOTES["machine"], f"the machine reads {found}")


def a_forwarded_link_logs_in_nobody_else(lab: Lab) -> None:
    ann, ben = lab.principals["ann"], lab.principals["ben"]
    ben.log_out()
    before = lab.auth.requests("authorization_code")
    url = ben.caller().ask("POST", "/api/v1/mcp/servers/notes/login").body["url"]
    page = ann.browser().visit(url)
    check(page.status >= 400, f"ann opens a link of ben and gets {page.status}: {page.text}")
    check(lab.auth.requests("authorization_code") == before, "a code was used")
    check(ben.login()["state"] == "login_required", f"ben is {ben.login()}")


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
    nobody_is_dialed_before_a_login,
    a_machine_needs_no_login,
    a_person_logs_in_by_rest,
    a_person_logs_in_by_the_command_line,
    a_modern_client_is_sent_to_the_login,
    a_legacy_client_is_sent_to_the_login,
    a_forwarded_link_logs_in_nobody_else,
    a_shared_login_is_for_a_superuser,
    two_people_see_only_their_own_data,
    a_server_may_be_its_own_login_service,
)

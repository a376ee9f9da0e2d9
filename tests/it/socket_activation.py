"""Holds listening sockets as systemd does, starts the program with them, and replaces it while clients connect.

Arguments: a JSON object with `program` (a list), `sockets`, `replacements`, and `tls`. Prints a JSON object: the number
of requests, those that were refused or failed, and what child processes of the program inherited.
"""
import collections
import json
import os
import pathlib
import select
import signal
import socket
import ssl
import sys
import threading
import time

TIMEOUT = 20


def start(program, sockets):
    """Forks and executes `program` with `sockets` as its descriptors 3 and above."""
    pid = os.fork()
    if pid == 0:
        copies = [os.dup(each.fileno()) for each in sockets]
        spare = [os.dup2(copy, 200 + place) for place, copy in enumerate(copies)]
        for place, descriptor in enumerate(spare):
            os.dup2(descriptor, 3 + place)
        os.closerange(3 + len(sockets), 256)
        environment = os.environ | {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(sockets))}
        os.execve(program[0], program, environment)
    return pid


def answered(address, tls):
    """Sends one request on a new connection, and returns its status line."""
    with socket.create_connection(address, timeout=TIMEOUT) as plain:
        connection = tls.wrap_socket(plain) if tls else plain
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b""
        while part := connection.recv(4096):
            text += part
        return text.split(b"\r\n", 1)[0].decode()


def connects(address, tls, counts, is_over):
    while not is_over.is_set():
        try:
            counts[answered(address, tls)] += 1
        except ConnectionRefusedError:
            counts["refused"] += 1
        except OSError as error:
            counts[f"failed: {error!r}"] += 1


def wait(is_reached):
    """Waits until it is, at most for a while: the program may not have started."""
    end = time.monotonic() + 10
    while not is_reached() and time.monotonic() < end:
        time.sleep(0.05)


def inherited(pid, sockets):
    """What the child processes of `pid` have of the sockets and of the variables."""
    inodes = {f"socket:[{os.fstat(each.fileno()).st_ino}]" for each in sockets}
    found, children = [], 0
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.joinpath("stat").read_text().rsplit(")", 1)[1].split()[1]) != pid:
                continue
            # Between `fork` and `exec` a child is a copy of the program, with all that it has.
            if folder.joinpath("cmdline").read_bytes() == pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                continue
            children += 1
            found += [os.readlink(each) for each in folder.joinpath("fd").iterdir() if os.readlink(each) in inodes]
            found += [each for each in folder.joinpath("environ").read_text().split("\0") if each.startswith("LISTEN_")]
        except OSError:
            continue
    return children, found


def main():
    given = json.loads(sys.argv[1])
    sockets = [socket.create_server(("127.0.0.1", 0), backlog=4096) for _ in range(given["sockets"])]
    tls = ssl._create_unverified_context() if given["tls"] else None
    counts, is_over = collections.Counter(), threading.Event()
    threads = [
        threading.Thread(target=connects, args=(each.getsockname(), tls, counts, is_over)) for each in sockets * 3
    ]
    for thread in threads:
        thread.start()
    select.select(sockets, [], [], TIMEOUT)
    pid, most, found = start(given["program"], sockets), 0, []
    for _ in range(given["replacements"]):
        begun = sum(counts.values())
        wait(lambda: sum(counts.values()) >= begun + 30)
        children, of_children = inherited(pid, sockets)
        most, found = max(most, children), found + of_children
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        pid = start(given["program"], sockets)
    begun = sum(counts.values())
    wait(lambda: sum(counts.values()) >= begun + 30)
    is_over.set()
    for thread in threads:
        thread.join()
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    print(json.dumps({"counts": counts, "children": most, "inherited": found, "status": status}))


main()

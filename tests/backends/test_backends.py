"""That the checks can fail, and that what they stand on does what it says."""

from __future__ import annotations

import contextlib
import io
import socket
import time
import unittest
from typing import Any

from chroma_run import same_revision
from clients import Outcome
from load import failures, slowest
from scenario import QUESTIONS, Scenario
from world import HERE, Checks, Failed, SlowWire, _resp, until


class Nothing:
    """A gateway that knows no tool."""

    name = "REST"

    def tools(self) -> list[dict[str, Any]]:
        return []

    def call(self, tool: str, arguments: dict[str, Any], timeout: float | None = None) -> Outcome:
        return Outcome(False, 0.1, code="tool_not_found")


class Liar(Nothing):
    """One that answers everything with success and nothing in it."""

    def call(self, tool: str, arguments: dict[str, Any], timeout: float | None = None) -> Outcome:
        return Outcome(True, 0.1, {"status": "success", "document_id": "x", "ingestion_status": "success"})


class Tests(unittest.TestCase):
    def test_a_check_that_fails_is_counted_and_shown(self) -> None:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            check = Checks("g")
            self.assertTrue(check.that("this is so", [1]))
            self.assertFalse(check.same("that is not", 1, 2))
        self.assertEqual((check.made, check.failed), (2, 1))
        self.assertIn("FAIL  g: that is not\n        found: 1, wanted 2", said.getvalue())

    def test_half_a_document_and_a_mixture_are_not_taken_for_a_whole_one(self) -> None:
        def mark(index: int, revision: int) -> dict[str, Any]:
            return {"chunk_index": index, "chunk_count": 2, "revision": revision}

        self.assertTrue(same_revision([mark(1, 7), mark(0, 7)]))
        self.assertFalse(same_revision([mark(0, 7)]))
        self.assertFalse(same_revision([mark(0, 7), mark(1, 8)]))
        self.assertFalse(same_revision([]))

    def test_a_gateway_without_tools_fails_the_scenario(self) -> None:
        for way in (Nothing(), Liar()):
            with contextlib.redirect_stdout(io.StringIO()), self.subTest(type(way).__name__):
                scenario = Scenario(way, "unit", HERE / "nowhere")
                scenario.copy = lambda file: file  # type: ignore[method-assign]
                scenario.tools()
                scenario.ingest(HERE / "documents" / "fees.md", run_async=True)
                self.assertGreater(scenario.check.failed, 14)

    def test_every_question_is_about_a_document_that_is_there(self) -> None:
        names = {file.name for file in (HERE / "documents").glob("*.md")}
        self.assertEqual({name for _, name in QUESTIONS}, names)
        self.assertEqual((len(QUESTIONS), len(names)), (10, 5))

    def test_failures_are_counted_by_kind_and_the_slowest_is_found(self) -> None:
        made = [Outcome(True, 1.0), Outcome(False, 3.0, code="a"), Outcome(False, 2.0, code="a")]
        self.assertEqual(failures(made), {"a": 2})
        self.assertEqual(slowest(made), 3.0)

    def test_waiting_in_vain_fails(self) -> None:
        with self.assertRaisesRegex(Failed, "it comes: not within 0.01 s"):
            until("it comes", 0.01, lambda: None, 0.001)

    def test_redis_answers_are_read(self) -> None:
        self.assertEqual(_resp(io.BytesIO(b"*3\r\n$2\r\nab\r\n:7\r\n$-1\r\n")), [b"ab", 7, None])
        with self.assertRaisesRegex(Failed, "ERR no"):
            _resp(io.BytesIO(b"-ERR no\r\n"))

    def test_a_slow_wire_is_late_by_what_was_said(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server, SlowWire(server.getsockname()[1]) as wire:
            wire.delay = 0.2
            with socket.create_connection(("127.0.0.1", wire.port)) as client:
                peer, _ = server.accept()
                with peer:
                    client.sendall(b"ask")
                    self.assertEqual(peer.recv(3), b"ask")
                    began = time.monotonic()
                    peer.sendall(b"answer")
                    self.assertEqual(client.recv(6), b"answer")
                    self.assertGreaterEqual(time.monotonic() - began, 0.2)


if __name__ == "__main__":
    unittest.main()

"""Random requests to every operation, made by schemathesis from the document.

`SWITCHYARD_CASES` is the number of cases for each operation in the phase of random data.
"""

import os
from concurrent.futures import ThreadPoolExecutor

from lab import HERE, Lab, variant

#: Few in the suite: the same requests are made in process (`crates/admin/src/described_tests.rs`) in a fraction of the time.
#: `scripts/test cases` asks for 10,000.
CASES = int(os.environ.get("SWITCHYARD_CASES", "100"))
#: Requests without a valid credential differ in one thing only, so fewer of them tell as much.
GUARDED = max(CASES // 3, 1)
#: Seconds for each case, far more than one takes.
PATIENCE_EACH = 1.0
#: The only DELETE ends a login, and its state can still be read: that somebody has to log in.
WITHOUT = "use_after_free"


#: Processes that run at the same time. Workers of one process are threads, in which Python 3.11 sometimes fails to compile
#: the checks ("AST constructor recursion depth mismatch"), and they share one processor.
PARTS = (
    ("--phases", "fuzzing", "--include-method", "GET"),
    ("--phases", "fuzzing", "--exclude-method", "GET"),
    ("--phases", "examples,coverage,stateful"),
)


def run(lab: Lab, base: str, cases: int, *more: str) -> None:
    document = variant(lab.out, needs_credential=bool(more))

    def part(options: tuple[str, ...]) -> int:
        said = lab.run(
            lab.python("schemathesis"), "--config-file", HERE / "schemathesis.toml", "run", document, "--url", base,
            "--checks", "all", "--exclude-checks", WITHOUT, "--max-examples", str(cases), "--generation-database", "none", "--no-color",
            *options, *more, cwd=HERE, patience=600 + 29 * cases * PATIENCE_EACH,
        )  # fmt: skip
        _, _, summary = said.partition("Test cases:")
        return int(summary.split()[0])

    with ThreadPoolExecutor(len(PARTS)) as pool:
        print(f"  {sum(pool.map(part, PARTS)):,} cases", flush=True)


def random_requests_are_answered_as_the_document_says(lab: Lab) -> None:
    with lab.gateway("cases-open") as gateway:
        run(lab, gateway.base, CASES)


def random_requests_without_a_valid_key_are_refused(lab: Lab) -> None:
    with lab.guarded("cases-guarded") as (gateway, _, admin):
        run(lab, gateway.base, GUARDED, "-H", f"Authorization: Bearer {admin}")


CHECKS = (random_requests_are_answered_as_the_document_says, random_requests_without_a_valid_key_are_refused)

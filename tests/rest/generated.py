"""Clients in two languages, generated from the document, type-checked, and run against gateways."""

import shutil
from pathlib import Path

from lab import DOCUMENT, HERE, Lab, Wrong

#: The generator of Python clients does not know the media type of the metrics.
PYTHON_CONFIG = """\
post_hooks: []
content_type_overrides:
  "application/openmetrics-text; version=1.0.0; charset=utf-8": text/plain
"""
TYPESCRIPT = ("--strict", "--target", "es2023", "--lib", "es2023,dom,dom.iterable,dom.asynciterable", "--types", "node")
MODULES = ("--module", "commonjs", "--moduleResolution", "bundler", "--skipLibCheck")


def run_against_both(lab: Lab, name: str, *client: Path) -> None:
    """Runs a client without authentication, and with keys."""
    with lab.gateway(f"{name}-open") as gateway:
        lab.run(*client, gateway.base, "", "")
    with lab.guarded(f"{name}-guarded") as (gateway, caller, admin):
        lab.run(*client, gateway.base, caller, admin)


def a_python_client_is_generated_without_a_warning_and_used(lab: Lab) -> None:
    folder = lab.out / "python"
    folder.mkdir()
    config = folder / "generator.yaml"
    config.write_text(PYTHON_CONFIG)
    lab.run(
        lab.python("openapi-python-client"), "generate", "--path", DOCUMENT, "--meta", "none", "--config", config,
        "--output-path", folder / "switchyard_client", "--fail-on-warning",
    )  # fmt: skip
    shutil.copy(HERE / "clients" / "client.py", folder)
    lab.run(lab.python("mypy"), "--strict", "client.py", "switchyard_client", cwd=folder)
    run_against_both(lab, "python", lab.python("python"), folder / "client.py")


def a_typescript_client_is_generated_and_used(lab: Lab) -> None:
    # Beside `node_modules`, where the compiler looks for types.
    folder = lab.tools / "typescript"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    programs = lab.tools / "node_modules" / ".bin"
    said = lab.run(lab.node, programs / "openapi-ts", "--input", DOCUMENT, "--output", folder / "switchyard-client", cwd=folder)
    if "warn" in said.lower():
        raise Wrong(f"the generator warns:\n{said}")
    shutil.copy(HERE / "clients" / "client.ts", folder)
    lab.run(lab.node, programs / "tsc", *TYPESCRIPT, *MODULES, "--outDir", folder / "out", folder / "client.ts", cwd=folder)
    run_against_both(lab, "typescript", lab.node, folder / "out" / "client.js")


CHECKS = (a_python_client_is_generated_without_a_warning_and_used, a_typescript_client_is_generated_and_used)

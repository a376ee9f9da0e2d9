"""Lists the crates in the program: an SBOM (CycloneDX 1.6) and the texts of their licenses.

Both follow from `cargo metadata --locked` for the platform and the features of the build. Crates that only tests and build
scripts use are not in the program, so they are left out.
Not here: which licenses are allowed (deny.toml).
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tomllib
import uuid

LICENSE = re.compile(r"^(licen[cs]e|copying|notice|unlicense|copyright)([-._].*)?$", re.I)
# Folders of C sources that a crate brings and does not build into the program.
NOT_BUILT = {"test", "tests", "third_party", "doc", "docs", "fuzz", "examples", "benches"}


def metadata(root, triple, features):
    """What cargo says about the workspace, for one platform."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", triple]
    command += ["--features", ",".join(features)] if features else []
    return json.loads(subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout)


def crates(told, name="switchyard-mcp"):
    """The crates that the program is linked of, each with its direct dependencies. The first is the program's own."""
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    first = next(one for one in told["workspace_members"] if packages[one]["name"] == name)
    found, waiting = {}, [first]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one] = [
                dependency["pkg"]
                for dependency in nodes[one]["deps"]
                if any(kind["kind"] is None for kind in dependency["dep_kinds"])
            ]
            waiting += found[one]
    rest = sorted((one for one in found if one != first), key=lambda one: (packages[one]["name"], packages[one]["version"]))
    return [(packages[one], [packages[other] for other in found[one]]) for one in [first, *rest]]


def sbom(root, linked, date):
    """The bill of materials."""
    locked = tomllib.loads(pathlib.Path(root, "Cargo.lock").read_text())["package"]
    sums = {(one["name"], one["version"]): one.get("checksum") for one in locked}
    components = [_component(package, sums.get((package["name"], package["version"]))) for package, _ in linked]
    components[0]["type"] = "application"
    dependencies = [
        {"ref": _url(package), "dependsOn": sorted({_url(other) for other in others})} for package, others in linked
    ]
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(date, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": components[0],
        },
        "components": components[1:],
        "dependencies": dependencies,
    }
    content = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    serial = uuid.uuid5(uuid.NAMESPACE_OID, content)
    return json.dumps({"serialNumber": f"urn:uuid:{serial}", **body}, indent=1) + "\n"


def _url(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def _component(package, checksum):
    component = {
        "type": "library",
        "bom-ref": _url(package),
        "name": package["name"],
        "version": package["version"],
        "purl": _url(package),
        "licenses": [{"expression": expression(package)}] if expression(package) else [],
    }
    if package.get("description"):
        component["description"] = " ".join(package["description"].split())
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return component


def expression(package):
    """The license as SPDX writes it today. Old crates write `/` for OR."""
    return re.sub(r"\s*/\s*", " OR ", package.get("license") or "")


def licenses(linked):
    """One text with the licenses of all crates of others. Equal texts are written once."""
    ours, foreign = linked[0][0], [package for package, _ in linked if package["source"]]
    texts, users = {}, {}
    for package in foreign:
        for path in license_files(pathlib.Path(package["manifest_path"]).parent):
            text = path.read_text(errors="replace").strip()
            key = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
            texts.setdefault(key, text)
            users.setdefault(key, []).append(f"{package['name']} {package['version']}")
    rows = [f"{package['name']} {package['version']}: {expression(package) or 'see its text below'}" for package in foreign]
    head = f"{ours['name']} {ours['version']} contains these crates of others, and the standard library of Rust (MIT OR Apache-2.0).\n"
    parts = [head, "\n".join(rows)]
    for key, text in texts.items():
        parts.append("=" * 80 + f"\n{', '.join(dict.fromkeys(users[key]))}\n" + "=" * 80 + f"\n\n{text}")
    return "\n\n".join(parts) + "\n"


def license_files(folder):
    """The texts of licenses in the source of one crate, those of C libraries in it included."""
    found = []
    for at, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if name.lower() not in NOT_BUILT and not name.startswith("."))
        found += [pathlib.Path(at, name) for name in sorted(files) if LICENSE.match(name) and not name.endswith((".rs", ".py", ".go"))]
    return found

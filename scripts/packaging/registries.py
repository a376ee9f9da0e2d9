"""Packages for npm and for PyPI. Neither downloads anything while it is installed.

npm: `switchyard-mcp` is a launcher of 3 KiB. It depends on one package for each platform, each with the program, and npm
installs the one that fits (`os`, `cpu`, `libc`).
PyPI: a wheel with the program as its only script, so nothing of Python runs when it starts.
Sources: package.json of the npm documentation, PEP 427 (wheels), PEP 639 (licenses), PEP 566 (metadata).
"""

import base64
import hashlib
import io
import json
import pathlib
import time
import zipfile

from . import archives

HERE = pathlib.Path(__file__).resolve().parent
# Every platform that a release has. The launcher names all, so it can be published before some of them.
PLATFORMS = ("linux-x64-gnu", "linux-x64-musl", "linux-arm64-gnu", "linux-arm64-musl", "darwin-x64", "darwin-arm64")


def npm_platform(release, program):
    """The package that has the program for one platform."""
    system, processor, *libc = program.npm.split("-")
    manifest = manifest_of(release, f"{release.name}-{program.npm}") | {
        "description": f"The program switchyard for {program.npm}; install {release.name}",
        "os": [system],
        "cpu": [processor],
        "files": ["bin"],
    }
    if libc:
        manifest["libc"] = [{"gnu": "glibc"}.get(libc[0], libc[0])]
    readme = f"The program of the package `{release.name}` for {program.npm}. Install that package instead.\n"
    files = {"bin/switchyard": (pathlib.Path(program.path).read_bytes(), 0o755)}
    return packed(release, manifest, readme, files | texts(release))


def npm_launcher(release):
    """The package that people install."""
    manifest = manifest_of(release, release.name) | {
        "description": release.description,
        "keywords": ["mcp", "gateway", "proxy", "router"],
        "bin": {"switchyard": "switchyard.js"},
        "engines": {"node": ">=18"},
        "files": ["switchyard.js"],
        "optionalDependencies": {f"{release.name}-{platform}": release.version for platform in PLATFORMS},
    }
    readme = (HERE / "npm/README.md").read_text().replace("switchyard-mcp", release.name)
    files = {"switchyard.js": ((HERE / "npm/switchyard.js").read_bytes(), 0o755), "LICENSE": texts(release)["LICENSE"]}
    return packed(release, manifest, readme, files)


def manifest_of(release, name):
    return {"name": name, "version": release.version, "license": release.license}


def texts(release):
    folder = release.root / "usr/share/doc/switchyard-mcp"
    return {name: ((folder / name).read_bytes(), 0o644) for name in ("LICENSE", "THIRD-PARTY-LICENSES.txt")}


def packed(release, manifest, readme, files):
    """The archive as `npm pack` makes it: all below `package/`."""
    files = files | {
        "package.json": ((json.dumps(manifest, indent=2) + "\n").encode(), 0o644),
        "README.md": (readme.encode(), 0o644),
    }
    archive = archives.tar({f"package/{name}": entry for name, entry in files.items()}, release.date)
    path = release.out / f"{manifest['name']}-{manifest['version']}.tgz"
    path.write_bytes(archives.compressed(archive))
    return path


def wheel(release, program):
    """The wheel. Its tag says which version of glibc the program needs."""
    name = release.name.replace("-", "_")
    tag = f"py3-none-{program.wheel}"
    information = f"{name}-{release.version}.dist-info"
    files = {f"{name}-{release.version}.data/scripts/switchyard": (pathlib.Path(program.path).read_bytes(), 0o755)}
    files |= {f"{information}/licenses/{path}": entry for path, entry in texts(release).items()}
    files[f"{information}/METADATA"] = (wheel_metadata(release).encode(), 0o644)
    lines = ["Wheel-Version: 1.0", "Generator: scripts/package", "Root-Is-Purelib: false", f"Tag: {tag}", ""]
    files[f"{information}/WHEEL"] = ("\n".join(lines).encode(), 0o644)
    files[f"{information}/RECORD"] = (record(files, f"{information}/RECORD").encode(), 0o644)
    path = release.out / f"{name}-{release.version}-{tag}.whl"
    path.write_bytes(zipped(files, release.date))
    return path


def wheel_metadata(release):
    readme = (HERE / "pypi-readme.md").read_text().replace("switchyard-mcp", release.name)
    head = {
        "Metadata-Version": "2.4",
        "Name": release.name,
        "Version": release.version,
        "Summary": release.description,
        "Keywords": "mcp,gateway,proxy,router",
        "License-Expression": release.license,
        "Requires-Python": ">=3.8",
        "Description-Content-Type": "text/markdown",
    }
    rows = [f"{key}: {value}" for key, value in head.items()]
    rows += [f"License-File: {name}" for name in texts(release)]
    return "\n".join(rows) + f"\n\n{readme}"


def record(files, own):
    """The sum and the size of each file, as the installer checks them; none of the record itself."""
    rows = [f"{name},sha256={sum_of(content)},{len(content)}" for name, (content, _) in sorted(files.items())]
    return "\n".join([*rows, f"{own},,", ""])


def sum_of(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def zipped(files, date):
    # A date before 1980 cannot be written.
    when = time.gmtime(max(date, 315532800))[:6]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        # What describes the package comes last, as PEP 427 recommends.
        for name in sorted(files, key=lambda name: (".dist-info/" in name, name)):
            content, mode = files[name]
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()

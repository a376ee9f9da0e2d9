"""One test for each kind of package: install, `--version`, serve, call a tool, remove."""

import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys

from gateway import REPOSITORY, answers, check, free_port, handbook, run, serving, version


def sums(packages):
    """SHA256SUMS covers every package, and each has the sum that it says."""
    told = run(["sha256sum", "--check", "SHA256SUMS"], cwd=packages.folder)
    named = {line.rsplit(": ", 1)[0] for line in told.splitlines()}
    ends = (".tar.gz", ".deb", ".rpm", ".tgz", ".whl", ".tar", ".json", ".txt", ".crate")
    there = {path.name for path in packages.folder.iterdir() if path.name.endswith(ends)}
    check(named == there, f"not in SHA256SUMS: {there - named}")


def inventory(packages):
    """The SBOM and the licenses name the crates of Cargo.lock that are in the program, and no tool of its tests."""
    bill = json.loads(packages.one("*.cdx.json").read_text())
    licenses = packages.one("*-licenses.txt").read_text()
    names = {component["name"] for component in bill["components"]}
    check({"tokio", "hyper", "rustls", "aws-lc-rs", "switchyard-mcp-gateway"} <= names, "a crate is missing")
    check(not {"proptest", "criterion", "switchyard-mcp-testkit"} & names, "a crate of the tests is listed")
    known = {bill["metadata"]["component"]["bom-ref"], *(component["bom-ref"] for component in bill["components"])}
    check({one["ref"] for one in bill["dependencies"]} == known, "a crate has no row of dependencies")
    for component in bill["components"]:
        check(component["licenses"], f"{component['name']} has no license")
        row = f"{component['name']} {component['version']}: "
        check("hashes" not in component or row in licenses, f"the licenses do not name {component['name']}")


def tarball(packages):
    """The program works from the folder of the archive, with the configuration file in it."""
    folder = packages.scratch()
    run(["tar", "--extract", "--file", packages.one("*-gnu.tar.gz"), "--directory", folder])
    [top] = folder.iterdir()
    version([top / "switchyard"])
    for name in ("LICENSE", "README.md", "THIRD-PARTY-LICENSES.txt", "sbom.cdx.json", "switchyard.service", "switchyard.socket", "man1/switchyard.1"):
        place = top / name if "/" not in name else top / "man" / name
        check(place.is_file(), f"{name} is missing")
    for shell, name in (("bash", "switchyard"), ("zsh", "_switchyard"), ("fish", "switchyard.fish")):
        completions(shell, top / "completions" / name)
    port = free_port()
    answers([top / "switchyard", "serve", "--listen", f"127.0.0.1:{port}"], port, top)


def completions(shell, file):
    check(file.is_file(), f"no completions for {shell}")
    if shutil.which(shell):
        run([shell, "-n", file])


def deb(packages):
    """dpkg installs it on a clean Debian, keeps a changed configuration file, and purges everything."""
    root, package = debian(packages), packages.one("*.deb")
    shutil.copy(package, root / "package.deb")
    chroot(root, "dpkg", "--install", "/package.deb")
    installed(root)
    config = root / "etc/switchyard/mcp_servers.yaml"
    config.write_text(config.read_text() + "# mine\n")
    chroot(root, "dpkg", "--force-confold", "--install", "/package.deb")
    check(config.read_text().endswith("# mine\n"), "an upgrade replaced the configuration file")
    state = root / "var/lib/switchyard"
    state.mkdir(exist_ok=True)
    chroot(root, "dpkg", "--remove", "switchyard-mcp")
    check(config.is_file() and state.is_dir(), "a removal deleted what only a purge may delete")
    chroot(root, "dpkg", "--purge", "switchyard-mcp")
    left = [name for name in ("usr/bin/switchyard", "etc/switchyard", "var/lib/switchyard", "usr/share/switchyard") if (root / name).exists()]
    check(not left, f"after a purge there are {left}")


def rpm(packages):
    """rpm installs it on a system that is not its own, and removes it."""
    root, package = debian(packages), packages.one("*.rpm")
    command = ["rpm", "--root", root, "--dbpath", "/var/lib/rpm", "--force-debian", "--nodeps"]
    run([*command, "--install", package])
    installed(root)
    requirements = run(["rpm", "--query", "--package", "--requires", package])
    check("libc.so.6()(64bit)" in requirements and "shadow-utils" in requirements, f"requires only {requirements}")
    run([*command, "--erase", "switchyard-mcp"])
    left = [name for name in ("usr/bin/switchyard", "etc/switchyard/mcp_servers.yaml", "usr/share/switchyard/docs/README.md") if (root / name).exists()]
    check(not left, f"after a removal there are {left}")


def installed(root):
    """What both kinds of system packages leave behind, and the service as its unit starts it."""
    passwd = (root / "etc/passwd").read_text()
    check("\nswitchyard:" in passwd and "/usr/sbin/nologin" in passwd, "there is no user for the service")
    for name in ("usr/share/doc/switchyard-mcp/THIRD-PARTY-LICENSES.txt", "usr/share/switchyard/docs/README.md", "usr/lib/systemd/system/switchyard.socket", "usr/share/bash-completion/completions/switchyard"):
        check((root / name).is_file(), f"{name} is missing")
    check(any((root / "usr/share/man/man1").glob("switchyard.1*")), "there is no man page")
    unit = (root / "usr/lib/systemd/system/switchyard.service").read_text()
    [start] = [line.removeprefix("ExecStart=") for line in unit.splitlines() if line.startswith("ExecStart=")]
    version(["chroot", root, start.split()[0]])
    port, entry = free_port(), ["chroot", "--userspec", "switchyard:switchyard", root]
    answers([*entry, *start.split(), "--listen", f"127.0.0.1:{port}"], port, root / "tmp")


def debian(packages):
    """A clean Debian of the same release as this machine, made once and unpacked for each test."""
    for tool in ("mmdebstrap", "rpm", "umoci"):
        check(shutil.which(tool), f"{tool} is missing; on Debian: apt-get install {tool}")
    base = pathlib.Path(os.environ["SWITCHYARD_TESTS"]) / "packages/debian.tar"
    if not base.exists():
        release = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
        places = [pathlib.Path("/etc/apt/sources.list"), *pathlib.Path("/etc/apt/sources.list.d").glob("*.sources")]
        sources = "\n".join(place.read_text() for place in places if place.is_file())
        made = base.with_suffix(".new.tar")
        base.parent.mkdir(parents=True, exist_ok=True)
        run(["mmdebstrap", "--variant=essential", "--include=passwd", release["VERSION_CODENAME"], made, "-"], input=sources, stdin=None)
        made.rename(base)
    root = packages.scratch()
    run(["tar", "--extract", "--file", base, "--directory", root, "--exclude", "./dev/*"])
    return root


def chroot(root, *command):
    return run(["chroot", root, *command], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"})


def slim(packages):
    """A slim Debian package replaces the full one: both have the same files."""
    folder = packages.scratch()
    out = folder / "slim"
    program = folder / "root/usr/bin/switchyard"
    run(["dpkg-deb", "--extract", packages.one("*.deb"), folder / "root"])
    run([REPOSITORY / "scripts/package", "--slim", "--program", program, "--out", out, "deb"])
    fields = run(["dpkg-deb", "--field", next(out.glob("*.deb"))])
    for line in ("Package: switchyard-mcp-slim", "Conflicts: switchyard-mcp", "Provides: switchyard-mcp"):
        check(line in fields.splitlines(), f"no line {line!r} in {fields}")


def npm(packages):
    """npm installs launcher and program from files alone; signals and exit codes pass through the launcher."""
    folder = packages.scratch()
    node_modules(packages, folder)
    found = sorted(path.name for path in (folder / "node_modules").iterdir() if not path.name.startswith("."))
    platform = packages.one("switchyard-mcp-linux-*.tgz").name.rsplit("-", 1)[0]
    check(found == ["switchyard-mcp", platform], f"npm installed {found}")
    launcher = folder / "node_modules/.bin/switchyard"
    version([launcher])
    run([launcher, "--no-such-option"], code=2)
    file, port = handbook(folder), free_port()
    command = [launcher, "serve", "--config", file, "--listen", f"127.0.0.1:{port}"]
    answers(command, port, folder)
    with serving(command, port, folder, ends=-signal.SIGKILL) as child:
        [program] = run(["pgrep", "--parent", child.pid()]).split()
        os.kill(int(program), signal.SIGKILL)
        child.wait()
    shutil.rmtree(folder / "node_modules" / platform)
    told = run([launcher, "--version"], code=1)
    check("--include=optional" in told, f"a missing program is explained by {told!r}")


def node_modules(packages, folder):
    """Installs both packages below the folder. An empty cache and `--offline` show that nothing is downloaded."""
    launcher = next(path for path in packages.folder.glob("switchyard-mcp-[0-9]*.tgz"))
    program = packages.one("switchyard-mcp-linux-*.tgz")
    manifest = {
        "private": True,
        "dependencies": {"switchyard-mcp": f"file:{launcher}"},
        "overrides": {program.name.rsplit("-", 1)[0]: f"file:{program}"},
    }
    (folder / "package.json").write_text(json.dumps(manifest))
    run(["npm", "install", "--offline", "--no-audit", "--no-fund", "--cache", folder / "cache"], cwd=folder)


def wheel(packages):
    """pip installs it from the file alone, finds every file of the record, and removes it."""
    folder = packages.scratch()
    run([sys.executable, "-m", "venv", folder / "venv"])
    pip, program = folder / "venv/bin/pip", folder / "venv/bin/switchyard"
    run([pip, "install", "--no-index", packages.one("*.whl")])
    version([program])
    check("switchyard-mcp" in run([pip, "list"]), "pip does not list it")
    port = free_port()
    answers([program, "serve", "--config", handbook(folder), "--listen", f"127.0.0.1:{port}"], port, folder)
    run([pip, "uninstall", "--yes", "switchyard-mcp"])
    check(not program.exists(), "pip left the program")


def oci(packages):
    """umoci unpacks it, and its command runs as its user without a shell or a writable file outside of two folders."""
    folder = packages.scratch()
    layout, bundle = folder / "layout", folder / "bundle"
    layout.mkdir()
    run(["tar", "--extract", "--file", packages.one("*-oci.tar"), "--directory", layout])
    [reference] = json.loads((layout / "index.json").read_text())["manifests"]
    tag = reference["annotations"]["org.opencontainers.image.ref.name"]
    run(["umoci", "unpack", "--image", f"{layout}:{tag}", bundle])
    process = json.loads((bundle / "config.json").read_text())["process"]
    user, root = f"{process['user']['uid']}:{process['user']['gid']}", bundle / "rootfs"
    check(user == "10001:10001", f"it runs as {user}")
    check(not [name for name in ("bin/sh", "usr/bin/sh", "usr/bin/env") if (root / name).exists()], "there is a shell")
    check((root / "etc/ssl/certs/ca-certificates.crt").stat().st_size > 100_000, "there are no certificates")
    open_to_all = [path for path in root.rglob("*") if not path.is_symlink() and path.stat().st_mode & stat.S_IWOTH]
    check(open_to_all == [root / "tmp"], f"others may write to {open_to_all}")
    shutil.copytree(REPOSITORY / "docs", root / "etc/switchyard/docs")
    handbook(root / "etc/switchyard", "docs")
    port, given = free_port(), dict(variable.split("=", 1) for variable in process["env"])
    command = [shutil.which("chroot"), "--userspec", user, root]
    version([*command, process["args"][0]])
    # The listener of the image is open to others, and a gateway without credentials refuses that.
    told = subprocess.run([*map(str, command), *process["args"]], env=given, capture_output=True, timeout=30)
    check(told.returncode == 2, f"without credentials it ends with {told.returncode}")
    answers([*command, *process["args"]], port, folder, given | {"SWITCHYARD_LISTEN": f"127.0.0.1:{port}"})


CHECKS = (sums, inventory, tarball, deb, rpm, slim, npm, wheel, oci)

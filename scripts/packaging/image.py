"""An image for containers, made from nothing: the program, the certificates of public authorities, and no shell.

It is an OCI image layout in one archive. Debian's `umoci` writes it, so no daemon is needed. A static program needs no
other file. For a dynamic one, the loader and its libraries are copied from this machine.
`deploy/Dockerfile.scratch` makes an image with the same content from source.
Source: OCI image specification 1.1.
"""

import datetime
import os
import pathlib
import shutil
import subprocess
import tempfile

from . import archives

USER = 10001
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
# Where distributions keep one file with all certificates.
CERTIFICATE_FILES = (f"/{CERTIFICATES}", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
ENVIRONMENT = {
    "SWITCHYARD_CONFIG": "/etc/switchyard/mcp_servers.yaml",
    "SWITCHYARD_LISTEN": "0.0.0.0:8080",
    "XDG_STATE_HOME": "/var/lib/switchyard",
    "HOME": "/var/lib/switchyard",
    "PATH": "/usr/bin",
}
# What glibc loads by name while it runs, to look up hosts. From 2.34 on it is in libc itself.
LOOKUPS = ("libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")


def image(release, program):
    """Makes the archive of the layout. Its tag is the version."""
    path = release.out / f"{release.name}-{release.version}-{program.triple}-oci.tar"
    with tempfile.TemporaryDirectory() as folder:
        layer, layout = pathlib.Path(folder, "layer.tar"), pathlib.Path(folder, "layout")
        entries, owners = content(release, program)
        layer.write_bytes(archives.tar(entries, release.date, owners))
        reference = f"{layout}:{release.version}"
        created = datetime.datetime.fromtimestamp(release.date, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        umoci("init", "--layout", layout)
        umoci("new", "--image", reference)
        umoci("raw", "add-layer", "--image", reference, "--history.created", created, layer)
        umoci("config", "--image", reference, "--no-history", *configuration(release, program, created))
        umoci("gc", "--layout", layout)
        path.write_bytes(archives.tar(archives.tree(layout), release.date))
    return path


def umoci(*arguments):
    if not shutil.which("umoci"):
        raise SystemExit("umoci is missing; on Debian: apt-get install umoci")
    subprocess.run(["umoci", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def configuration(release, program, created):
    """The options that describe how a container of the image starts."""
    options = ["--created", created, "--os", program.system, "--architecture", program.container]
    options += ["--config.user", f"{USER}:{USER}", "--config.workingdir", "/var/lib/switchyard"]
    options += ["--config.entrypoint", "/usr/bin/switchyard", "--config.cmd", "serve", "--config.exposedports", "8080/tcp"]
    options += [f"--config.env={name}={value}" for name, value in ENVIRONMENT.items()]
    labels = {"title": release.name, "version": release.version, "licenses": release.license, "created": created}
    return options + [f"--config.label=org.opencontainers.image.{name}={value}" for name, value in labels.items()]


def content(release, program):
    """The entries of the one layer, and the owners of those that are not root's."""
    documents = release.root / "usr/share/doc/switchyard-mcp"
    files = {
        "usr/bin/switchyard": (pathlib.Path(program.path).read_bytes(), 0o755),
        CERTIFICATES: (certificates().read_bytes(), 0o644),
        "etc/passwd": (passwd("x:0:0:root:/root", f"x:{USER}:{USER}:Switchyard:/var/lib/switchyard", ":/usr/sbin/nologin"), 0o644),
        "etc/group": (passwd("x:0:", f"x:{USER}:", ""), 0o644),
        "etc/nsswitch.conf": (b"passwd: files\ngroup: files\nhosts: files dns\n", 0o644),
    }
    for name in ("LICENSE", "THIRD-PARTY-LICENSES.txt"):
        files[f"usr/share/doc/switchyard-mcp/{name}"] = ((documents / name).read_bytes(), 0o644)
    files |= libraries(program)
    state = {"var/lib/switchyard": (None, 0o700), "tmp": (None, 0o1777), "etc/switchyard": None}
    entries = files | state
    return archives.folders(entries) | entries, {"var/lib/switchyard": (USER, USER)}


def passwd(root, user, end):
    return f"root:{root}{end}\nswitchyard:{user}{end}\n".encode()


def certificates():
    """The file of certificates, from SSL_CERT_FILE or from this machine."""
    wanted = [os.environ["SSL_CERT_FILE"]] if os.environ.get("SSL_CERT_FILE") else CERTIFICATE_FILES
    for name in wanted:
        if pathlib.Path(name).is_file():
            return pathlib.Path(name)
    raise SystemExit("no certificates of public authorities; on Debian: apt-get install ca-certificates")


def libraries(program):
    """The loader and the libraries of a dynamic program, each at the place where the loader looks."""
    if not program.interpreter:
        return {}
    found = {program.interpreter.lstrip("/"): (pathlib.Path(program.interpreter).read_bytes(), 0o755)}
    known = cached(program)
    waiting = list(program.libraries) + [name for name in LOOKUPS if name in known]
    for name in waiting:
        place = known.get(name)
        if place is None:
            if program.interpreter.endswith(name):
                continue
            raise SystemExit(f"{name} is missing on this machine, and the program needs it")
        found[place.lstrip("/")] = (pathlib.Path(place).read_bytes(), 0o755)
    return found


def cached(program):
    """Where the loader of this machine finds each library of this processor."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], check=True, stdout=subprocess.PIPE, text=True).stdout
    processor = {"x86_64": "x86-64", "aarch64": "AArch64"}[program.machine]
    rows = [line.split(" => ") for line in listed.splitlines() if " => " in line and processor in line]
    return {name.split()[0]: place for name, place in reversed(rows)}

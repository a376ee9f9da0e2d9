"""Lays out the files of a package as they are on a system: program, man pages, completions, unit, configuration, texts.

The folder is `target/package/staged`. `Cargo.toml` names its files for the Debian and RPM packages.
"""

import pathlib
import shutil
import subprocess

# Shell, and the place of its completions below usr/share. Debian and RPM systems look at both places of zsh.
COMPLETIONS = {
    "bash": "bash-completion/completions/switchyard",
    "zsh": "zsh/vendor-completions/_switchyard",
    "fish": "fish/vendor_completions.d/switchyard.fish",
}
# Pages for those who change Switchyard are not for those who install it.
LEFT_OUT = {"contributing"}


def stage(repository, folder, program, texts):
    """Makes the tree anew. `texts` maps a name to what is written beside the license."""
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    install(program.path, folder / "usr/bin/switchyard", 0o755)
    documents(folder)
    for name in ("LICENSE", "README.md", "CHANGELOG.md"):
        install(repository / name, folder / "usr/share/doc/switchyard-mcp" / name)
    for name, text in texts.items():
        write(folder / "usr/share/doc/switchyard-mcp" / name, text)
    for page in sorted((repository / "docs").rglob("*.md")):
        inner = page.relative_to(repository / "docs")
        if inner.parts[0] not in LEFT_OUT:
            install(page, folder / "usr/share/switchyard/docs" / inner)
    unit = (repository / "deploy/switchyard.service").read_text()
    write(folder / "usr/lib/systemd/system/switchyard.service", unit.replace("/usr/local/bin/", "/usr/bin/"))
    install(repository / "deploy/switchyard.socket", folder / "usr/lib/systemd/system/switchyard.socket")
    install(repository / "deploy/packages/mcp_servers.yaml", folder / "etc/switchyard/mcp_servers.yaml")


def documents(folder):
    """Man pages and completions, which the program writes by itself."""
    program, share = folder / "usr/bin/switchyard", folder / "usr/share"
    manual = share / "man/man1"
    manual.mkdir(parents=True)
    told(program, "man", str(manual))
    for page in manual.iterdir():
        page.chmod(0o644)
    for shell, place in COMPLETIONS.items():
        write(share / place, told(program, "completions", shell))


def told(program, *arguments):
    """What the program prints. It has to run on this machine, so packages of a platform are made on that platform."""
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{program} {' '.join(arguments)} failed with exit code {done.returncode}")
    return done.stdout


def install(source, place, mode=0o644):
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)
    place.chmod(mode)


def write(place, text):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(0o644)

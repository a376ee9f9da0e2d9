"""Reads what a program file needs of the system that it runs on: an ELF file by `readelf`, which comes with each C compiler, and
the head of a Mach-O file.

Not here: how a package states it (the names that each registry has for a platform are properties of `Program`).
"""

import dataclasses
import os
import re
import struct
import subprocess

ELF_MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}
MACH_MACHINES = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
# The oldest macOS that rustc builds for by default.
OLDEST_MACOS = {"x86_64": "10_12", "aarch64": "11_0"}


class Unknown(Exception):
    """The file is no program of a platform that has packages."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A program file and its platform."""

    path: str
    system: str  # linux, darwin
    machine: str  # x86_64, aarch64
    libc: str = ""  # gnu, musl; empty on macOS
    glibc: tuple = ()  # the newest version of a symbol that it needs, such as (2, 34)
    libraries: tuple = ()  # the shared libraries that it names
    interpreter: str = ""  # the loader of a dynamic program

    @property
    def triple(self):
        return f"{self.machine}-apple-darwin" if self.system == "darwin" else f"{self.machine}-unknown-linux-{self.libc}"

    @property
    def npm(self):
        """The end of the name of its npm package."""
        return "-".join(filter(None, [self.system, {"x86_64": "x64", "aarch64": "arm64"}[self.machine], self.libc]))

    @property
    def wheel(self):
        """The platform tag of its wheel (PEP 600, PEP 656)."""
        if self.system == "darwin":
            return f"macosx_{OLDEST_MACOS[self.machine]}_{self.machine.replace('aarch64', 'arm64')}"
        if self.libc == "musl":
            return f"musllinux_1_2_{self.machine}"
        major, minor = max(self.glibc, (2, 17))
        return f"manylinux_{major}_{minor}_{self.machine}"

    @property
    def container(self):
        """The name of its processor in images and in Debian."""
        return {"x86_64": "amd64", "aarch64": "arm64"}[self.machine]


def read(path):
    """Reads a program file."""
    with open(path, "rb") as file:
        head = file.read(8)
    if head[:4] == b"\x7fELF":
        return _elf(str(path))
    if head[:4] == b"\xcf\xfa\xed\xfe":
        machine = MACH_MACHINES.get(struct.unpack_from("<I", head, 4)[0])
        if machine:
            return Program(str(path), "darwin", machine)
    raise Unknown(f"{path} is no program for Linux or macOS on x86-64 or ARM64")


def _elf(path):
    command = ["readelf", "--wide", "--file-header", "--program-headers", "--dynamic", "--version-info", path]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    machine = ELF_MACHINES.get(re.search(r"Machine: +(.+)", told)[1])
    if not machine:
        raise Unknown(f"{path} is for another processor")
    interpreter = re.search(r"program interpreter: (.+)\]", told)
    interpreter = interpreter[1] if interpreter else ""
    libraries = tuple(re.findall(r"\(NEEDED\) +Shared library: \[(.+)\]", told))
    versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", told)
    libc = "gnu" if any(name.startswith("libc.so") for name in libraries) and "musl" not in interpreter else "musl"
    glibc = max((tuple(map(int, version)) for version in versions), default=())
    return Program(path, "linux", machine, libc, glibc, libraries, interpreter)

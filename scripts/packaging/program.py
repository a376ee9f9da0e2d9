"""Reads what a program file needs of the system that it runs on: ELF and Mach-O headers, without other tools.

Not here: how a package states it (the names that each registry has for a platform are properties of `Program`).
Sources: System V ABI (ELF), LSB 5.0 (symbol versions), <mach-o/loader.h>.
"""

import dataclasses
import struct

ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
MACH_MACHINES = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
PT_INTERP, DYNAMIC, VERSION_NEEDED = 3, 6, 0x6FFFFFFE
DT_NEEDED = 1
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
    """Reads the head of a program file."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:4] == b"\x7fELF" and data[4:6] == b"\x02\x01":
        return _elf(str(path), data)
    if data[:4] == b"\xcf\xfa\xed\xfe":
        machine = MACH_MACHINES.get(struct.unpack_from("<I", data, 4)[0])
        if machine:
            return Program(str(path), "darwin", machine)
    raise Unknown(f"{path} is no program for Linux or macOS on x86-64 or ARM64")


def _elf(path, data):
    machine = ELF_MACHINES.get(struct.unpack_from("<H", data, 18)[0])
    if not machine:
        raise Unknown(f"{path} is for another processor")
    interpreter = _interpreter(data)
    libraries, glibc = _dynamic(data)
    libc = "gnu" if any(name.startswith("libc.so") for name in libraries) and "musl" not in interpreter else "musl"
    return Program(path, "linux", machine, libc, glibc, tuple(libraries), interpreter)


def _interpreter(data):
    offset, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    for place in range(offset, offset + size * count, size):
        kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", data, place)
        if kind == PT_INTERP:
            return data[start : start + length].rstrip(b"\0").decode()
    return ""


def _sections(data):
    offset, size, count = *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58)
    found = []
    for place in range(offset, offset + size * count, size):
        _, kind, _, _, start, length, link, entries = struct.unpack_from("<IIQQQQII", data, place)
        found.append((kind, start, length, link, entries))
    return found


def _dynamic(data):
    """The names of libraries, and the newest version of glibc among the versions of symbols."""
    sections, libraries, versions = _sections(data), [], [()]
    for kind, start, length, link, entries in sections:
        text = lambda offset: data[sections[link][1] + offset : data.index(b"\0", sections[link][1] + offset)].decode()
        if kind == DYNAMIC:
            pairs = struct.iter_unpack("<QQ", data[start : start + length])
            libraries += [text(value) for tag, value in pairs if tag == DT_NEEDED]
        if kind == VERSION_NEEDED:
            versions += [version for name in _needed(data, start, entries) if (version := _glibc(text(name)))]
    return libraries, max(versions)


def _needed(data, place, entries):
    """The offsets of the names in a section of needed versions."""
    for _ in range(entries):
        _, count, _, auxiliary, following = struct.unpack_from("<HHIII", data, place)
        at = place + auxiliary
        for _ in range(count):
            _, _, _, name, step = struct.unpack_from("<IHHII", data, at)
            yield name
            at += step
        place += following


def _glibc(name):
    numbers = name.removeprefix("GLIBC_").split(".")
    return tuple(map(int, numbers[:2])) if name.startswith("GLIBC_") and numbers[0].isdigit() else None

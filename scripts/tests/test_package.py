"""What `scripts/package` reads from a program file, and what its archives, wheels and lists of crates contain."""
import gzip, io, json, os, pathlib, platform, shutil, subprocess, sys, tarfile, tempfile, tomllib, types, unittest, zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from packaging import archives, inventory, program, registries


def linux(**fields):
    return program.Program(**{"path": sys.executable, "system": "linux", "machine": "x86_64", "libc": "gnu"} | fields)


def release(folder):
    documents = pathlib.Path(folder, "usr/share/doc/switchyard-mcp")
    documents.mkdir(parents=True)
    for name in ("LICENSE", "THIRD-PARTY-LICENSES.txt"):
        documents.joinpath(name).write_text(name)
    return types.SimpleNamespace(
        name="switchyard-mcp", version="1.2.3", description="text", license="Apache-2.0",
        date=1_700_000_000, root=pathlib.Path(folder), out=pathlib.Path(folder),
    )


class Programs(unittest.TestCase):
    def test_names_of_a_platform(self):
        one = linux(glibc=(2, 28))
        self.assertEqual((one.triple, one.npm, one.wheel), ("x86_64-unknown-linux-gnu", "linux-x64-gnu", "manylinux_2_28_x86_64"))
        static = linux(machine="aarch64", libc="musl")
        self.assertEqual((static.npm, static.wheel, static.container), ("linux-arm64-musl", "musllinux_1_2_aarch64", "arm64"))
        mac = program.Program("", "darwin", "aarch64")
        self.assertEqual((mac.triple, mac.npm, mac.wheel), ("aarch64-apple-darwin", "darwin-arm64", "macosx_11_0_arm64"))

    @unittest.skipUnless(sys.platform == "linux" and platform.libc_ver()[0] == "glibc", "a program with glibc")
    def test_a_program_of_this_system_is_read(self):
        found = program.read("/bin/ls")
        self.assertEqual((found.system, found.libc, found.machine), ("linux", "gnu", platform.machine()))
        self.assertIn("libc.so.6", found.libraries)
        here = tuple(map(int, platform.libc_ver()[1].split(".")[:2]))
        self.assertTrue((2, 2) <= found.glibc <= here, found.glibc)

    def test_a_script_is_refused(self):
        with self.assertRaises(program.Unknown):
            program.read(__file__)


class Archives(unittest.TestCase):
    def test_the_same_content_gives_the_same_bytes(self):
        one = archives.tar({"b": (b"2", 0o644), "a": (b"1", 0o755)}, 5)
        self.assertEqual(archives.compressed(one), archives.compressed(archives.tar({"a": (b"1", 0o755), "b": (b"2", 0o644)}, 5)))
        members = tarfile.open(fileobj=io.BytesIO(gzip.decompress(archives.compressed(one)))).getmembers()
        self.assertEqual([(member.name, member.mode, member.uid, member.mtime) for member in members], [("a", 0o755, 0, 5), ("b", 0o644, 0, 5)])


class Registries(unittest.TestCase):
    def test_the_record_of_a_wheel_has_every_file_and_its_sum(self):
        with tempfile.TemporaryDirectory() as folder:
            archive = zipfile.ZipFile(registries.wheel(release(folder), linux(glibc=(2, 28))))
            rows = dict(row.split(",", 1) for row in archive.read("switchyard_mcp-1.2.3.dist-info/RECORD").decode().split())
            self.assertEqual(set(rows), set(archive.namelist()))
            for name, row in rows.items():
                content = archive.read(name)
                self.assertIn(row, (",", f"sha256={registries.sum_of(content)},{len(content)}"))
            script = archive.getinfo("switchyard_mcp-1.2.3.data/scripts/switchyard")
            self.assertEqual(script.external_attr >> 16 & 0o777, 0o755)

    def test_every_platform_has_a_package_that_the_launcher_names(self):
        for one in (linux(), linux(libc="musl"), program.Program("", "darwin", "x86_64")):
            self.assertIn(one.npm, registries.PLATFORMS)


@unittest.skipUnless(shutil.which("node"), "Node.js")
class Launcher(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.modules = self.folder / "project/node_modules"
        launcher = pathlib.Path(registries.HERE, "npm/switchyard.js").read_text()
        self.launcher = self.package(self.modules, "switchyard-mcp") / "switchyard.js"
        self.launcher.write_text(launcher)
        told = "process.stdout.write(`${process.platform}-${process.arch}`)"
        system = subprocess.run(["node", "-e", told], capture_output=True, text=True, check=True).stdout
        self.platform = f"switchyard-mcp-{system}" + ("-gnu" if system.startswith("linux") else "")

    def package(self, modules, name, version="1.2.3", says=None):
        folder = modules / name
        folder.joinpath("bin").mkdir(parents=True)
        folder.joinpath("package.json").write_text(json.dumps({"name": name, "version": version}))
        program = folder / "bin/switchyard"
        program.write_text(f"#!/bin/sh\necho {says}\n")
        program.chmod(0o755)
        return folder

    def run_it(self, **more):
        ran = subprocess.run(["node", self.launcher], capture_output=True, text=True, env=os.environ | more, cwd=self.folder)
        return ran.returncode, ran.stdout.strip(), ran.stderr

    def test_the_program_beside_the_launcher_or_below_it_is_started(self):
        self.package(self.modules, self.platform, says="beside")
        self.assertEqual(self.run_it()[:2], (0, "beside"))
        self.package(self.modules / "switchyard-mcp/node_modules", self.platform, says="own")
        self.assertEqual(self.run_it()[:2], (0, "own"))

    def test_programs_of_others_are_not_started(self):
        elsewhere = self.folder / "elsewhere"
        for modules in (self.folder / "node_modules", elsewhere, self.folder / ".node_modules", self.folder / ".node_libraries"):
            self.package(modules, self.platform, says="theirs")
        code, out, err = self.run_it(NODE_PATH=str(elsewhere), HOME=str(self.folder))
        self.assertEqual((code, out), (1, ""))
        self.assertIn("is not installed", err)

    def test_another_version_or_a_link_out_of_the_package_is_refused(self):
        folder = self.package(self.modules, self.platform, version="1.2.4", says="old")
        code, out, err = self.run_it()
        self.assertEqual((code, out), (1, ""))
        self.assertIn("1.2.4, expected", err)
        shutil.rmtree(folder)
        folder = self.package(self.modules, self.platform)
        folder.joinpath("bin/switchyard").unlink()
        folder.joinpath("bin/switchyard").symlink_to("/bin/echo")
        code, out, err = self.run_it()
        self.assertEqual((code, out), (1, ""))
        self.assertIn("leads out of its package", err)


class Inventory(unittest.TestCase):
    def test_only_crates_that_are_linked_are_listed(self):
        def crate(name):
            return {"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": name != "own"}

        def depends(name, kind):
            return {"pkg": name, "dep_kinds": [{"kind": kind}]}

        nodes = [
            {"id": "own", "deps": [depends("used", None), depends("tested", "dev"), depends("built", "build")]},
            {"id": "used", "deps": [depends("below", None)]},
            {"id": "below", "deps": []},
        ]
        names = ("own", "used", "tested", "built", "below")
        told = {"packages": [crate(name) for name in names], "resolve": {"nodes": nodes}, "workspace_members": ["own"]}
        linked = inventory.crates(told, "own")
        self.assertEqual([package["name"] for package, _ in linked], ["own", "below", "used"])
        self.assertEqual(inventory.expression(linked[1][0]), "MIT OR Apache-2.0")

    def test_the_rpm_lists_each_unit(self):
        root = pathlib.Path(__file__).resolve().parent.parent.parent
        listed = tomllib.loads(root.joinpath("Cargo.toml").read_text())["package"]["metadata"]["generate-rpm"]["assets"]
        names = {pathlib.Path(asset["dest"]).name for asset in listed}
        units = {unit.name for unit in root.joinpath("deploy").glob("switchyard.s*")}
        self.assertEqual(len(units), 2)
        self.assertLessEqual(units, names)

//! The memory that is available: the limits of the control groups, and the memory of the machine.
//!
//! Invariant: a file that cannot be read sets no limit. The module reads a few small files and is meant for the start.
//! Not here: swap, which Switchyard should not use. Sources: the kernel's cgroup-v2 and cgroup-v1/memory pages.

use std::fs;
use std::path::{Path, PathBuf};

use super::LEAST;

/// The part of the available memory that is the default budget.
const PART: u64 = 4;
/// The default if nothing can be read.
const FALLBACK: u64 = 1 << 30;

/// A quarter of what the process may use, at least [`LEAST`].
pub fn default_limit() -> usize {
    let quarter = available(Path::new("/")).unwrap_or(FALLBACK) / PART;
    usize::try_from(quarter).unwrap_or(usize::MAX).max(LEAST)
}

/// The memory that the process may use, in bytes: the lowest limit of its control groups, or the machine's memory.
fn available(root: &Path) -> Option<u64> {
    cgroup_limits(root).chain(machine(root)).min()
}

fn machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The limits of the process's control group and of all groups above it.
fn cgroup_limits(root: &Path) -> impl Iterator<Item = u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let files: Vec<PathBuf> = groups.lines().flat_map(|line| limit_files(root, line)).collect();
    files.into_iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
}

/// The files with the limits of a group and those above it. `line` is one of `/proc/self/cgroup`: `0::/a/b` in
/// version 2, `4:cpu,memory:/a/b` in version 1.
fn limit_files(root: &Path, line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (base, name) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        list if list.split(',').any(|one| one == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    // Inside a container the path may be the host's; then the group itself is mounted at the base.
    let group = Path::new(group.trim_start_matches('/'));
    group.ancestors().map(|group| root.join(base).join(group).join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root folder with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        }
        folder
    }

    #[test]
    fn the_least_limit_counts() {
        let machine = ("proc/meminfo", "MemTotal:       1048576 kB\nMemFree: 1 kB\n");
        let version_2 = ("proc/self/cgroup", "0::/system.slice/switchyard.service\n");
        let version_1 = ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/1\n");
        for (files, expected) in [
            (vec![machine], Some(1 << 30)),
            (vec![], None),
            (vec![machine, version_2], Some(1 << 30)),
            (vec![machine, version_2, ("sys/fs/cgroup/memory.max", "max\n")], Some(1 << 30)),
            (
                vec![machine, version_2, ("sys/fs/cgroup/system.slice/memory.max", "268435456\n")],
                Some(1 << 28),
            ),
            (
                vec![
                    version_2,
                    ("sys/fs/cgroup/system.slice/memory.max", "268435456\n"),
                    ("sys/fs/cgroup/system.slice/switchyard.service/memory.max", "134217728\n"),
                ],
                Some(1 << 27),
            ),
            (
                vec![machine, version_1, ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n")],
                Some(1 << 29),
            ),
            (
                vec![
                    machine,
                    version_1,
                    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ],
                Some(1 << 30),
            ),
        ] {
            assert_eq!(available(root(&files).path()), expected, "{files:?}");
        }
    }

    #[test]
    fn this_machine_has_a_default() {
        assert!(default_limit() >= LEAST);
    }
}

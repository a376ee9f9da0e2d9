//! A control group (cgroup v2) for each child, if the system delegates a part of its hierarchy to this process.
//!
//! Killing a control group also ends what left the process group of the child: daemons, and grandchildren whose
//! gateway was killed. The child enters its group itself, before it becomes the program of the server.
//!
//! Invariants: each group is locked by the gateway that made it, for as long as that gateway lives. Groups without a
//! lock are what a killed gateway left behind; the next gateway in the same control group ends and removes them.
//!
//! Not here: limits, as no controller is enabled; a child that leaves its group, which its user may do.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::{Access, access};
use uuid::Uuid;

/// Where systemd and container runtimes mount the hierarchy; the second path is that of hybrid systems.
const HIERARCHIES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// The beginning of the name of each group. A UUID follows.
const PREFIX: &str = "switchyard-child-";
/// Attempts to make a group, should another gateway take a new one for an abandoned one.
const ATTEMPTS: usize = 3;
/// Attempts to remove a group, whose killed processes need a moment to end.
const REMOVALS: u32 = 100;
/// The pause between two of them.
const PAUSE: Duration = Duration::from_millis(10);

/// A control group and its lock. Dropping it kills what is in it.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
    _lock: File,
}

impl Group {
    /// A new, empty group; none if no control group is delegated. May block.
    pub(super) fn new() -> Option<Self> {
        static DELEGATED: OnceLock<Option<PathBuf>> = OnceLock::new();
        let parent = DELEGATED.get_or_init(prepare).as_deref()?;
        (0..ATTEMPTS).find_map(|_| Self::within(parent).ok())
    }

    fn within(parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{}", Uuid::new_v4()));
        fs::create_dir(&path)?;
        let group = Self::locked(path)?;
        // It may have been removed before it was locked. Before Linux 5.14 it cannot be killed.
        group.path.join("cgroup.kill").metadata().map(|_| group)
    }

    /// Fails if another gateway has it.
    fn locked(path: PathBuf) -> io::Result<Self> {
        let lock = File::open(&path)?;
        lock.try_lock()?;
        Ok(Self { path, _lock: lock })
    }

    /// Where the group is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Kills every process in it.
    pub(super) fn kill(&self) {
        // It fails when the group is gone, and so are its processes.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Kills every process in it and removes it. May block.
    #[allow(clippy::disallowed_methods)] // only called on threads for blocking work
    pub(super) fn remove(self) {
        self.kill();
        let removed = (0..REMOVALS).any(|attempt| {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            fs::remove_dir(&self.path).is_ok()
        });
        if !removed {
            tracing::warn!(path = %self.path.display(), "a control group cannot be removed");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        // It fails while a killed process is ending; the next gateway removes the group then.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Moves this process into the group at `path`.
pub(super) fn enter(path: &Path) -> io::Result<()> {
    fs::write(path.join("cgroup.procs"), "0")
}

/// The control group of this process, if groups can be made in it, without what killed gateways left there.
fn prepare() -> Option<PathBuf> {
    let delegated = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| delegated(&text));
    if let Some(path) = &delegated {
        tracing::debug!(path = %path.display(), "each child process gets a control group");
        clean(path);
    } else {
        tracing::debug!("no control group is delegated: child processes have process groups alone");
    }
    delegated
}

/// The folder of the control group that `membership` names, if this process may make groups there and move into them.
fn delegated(membership: &str) -> Option<PathBuf> {
    let own = membership.lines().find_map(|line| line.strip_prefix("0::/"))?;
    if own.split('/').any(|part| part == "..") {
        return None; // outside of the cgroup namespace
    }
    let folders = HIERARCHIES.iter().map(|root| Path::new(root).join(own));
    folders.into_iter().find(|folder| {
        let may = |path: PathBuf| access(path, Access::WRITE_OK).is_ok();
        folder.join("cgroup.controllers").exists() && may(folder.clone()) && may(folder.join("cgroup.procs"))
    })
}

/// Ends and removes the groups in `parent` whose gateway is gone.
fn clean(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().filter_map(Result::ok);
    let is_ours = |name: &str| name.strip_prefix(PREFIX).is_some_and(|id| Uuid::try_parse(id).is_ok());
    let left = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
    let groups: Vec<Group> = left.filter_map(|entry| Group::locked(entry.path()).ok()).collect();
    groups.iter().for_each(Group::kill);
    for group in groups {
        tracing::info!(path = %group.path.display(), "ending the processes that a killed gateway left behind");
        group.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_second_version_of_control_groups_counts_and_only_inside_of_the_namespace() {
        for membership in ["", "4:memory:/a\n1:cpu:/\n", "0::/../b\n", "0::/no/such/group\n"] {
            assert_eq!(delegated(membership), None, "{membership:?}");
        }
    }

    #[test]
    fn a_group_that_is_locked_is_left_alone_and_names_of_others_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |name: String| {
            let path = folder.path().join(name);
            fs::create_dir(&path).expect("made");
            path
        };
        let [held, abandoned] = [(); 2].map(|()| make(format!("{PREFIX}{}", Uuid::new_v4())));
        let others = make(format!("{PREFIX}backup.service"));
        let lock = File::open(&held).expect("opened");
        lock.try_lock().expect("locked");
        // A plain folder cannot be removed with the file in it that stands for `cgroup.kill`.
        clean(folder.path());
        assert!(held.exists() && others.exists(), "left alone");
        assert!(!held.join("cgroup.kill").exists() && !others.join("cgroup.kill").exists(), "not killed");
        assert!(abandoned.join("cgroup.kill").exists(), "killed");
    }
}

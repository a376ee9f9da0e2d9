//! A control group (cgroup v2) for each child, if the system delegates a part of its hierarchy to this process.
//!
//! Killing a control group also ends what left the process group of the child: daemons, and grandchildren whose
//! gateway was killed. The child enters its group itself, before it becomes the program of the server.
//!
//! Invariants: each group is locked by the gateway that made it, for as long as that gateway lives. Groups without a
//! lock are left from a gateway that was killed. The next gateway in the same control group kills their processes at
//! its start, and removes them in the background. Groups that a child made in its own are removed with it, depth first.
//!
//! Not here: limits, as no controller is enabled; a child that leaves its group, which its user may do.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};
use uuid::Uuid;

/// Where systemd and container runtimes mount the hierarchy; the second path is that of hybrid systems.
const HIERARCHIES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// The beginning of the name of each group. A UUID follows.
const PREFIX: &str = "switchyard-child-";
/// Attempts to make a group, should another gateway take a new one for an abandoned one.
const ATTEMPTS: usize = 3;
/// The time for removing groups, in sum, whose killed processes need a moment to end.
const REMOVAL: Duration = Duration::from_secs(1);
/// Groups of killed gateways that one start removes. Each takes a file descriptor meanwhile.
const MOST_ABANDONED: usize = 256;
/// The pause between two attempts to remove groups.
const PAUSE: Duration = Duration::from_millis(10);

/// A control group and its lock. Dropping it kills what is in it.
#[derive(Debug)]
pub(super) struct ControlGroup {
    path: PathBuf,
    _lock: File,
}

impl ControlGroup {
    /// Makes a new, empty group; `None` if no control group is delegated. May block.
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

    /// The path of the group.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Kills every process in the group.
    pub(super) fn kill(&self) {
        // It fails if the group no longer exists. Then its processes have ended too.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Kills every process in the group and removes it. May block.
    pub(super) fn remove(self) {
        self.kill();
        remove_all(vec![self], Instant::now() + REMOVAL);
    }
}

impl Drop for ControlGroup {
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
        let groups = abandoned(path);
        // A child does not wait for it. If there is no thread, the next gateway removes the groups.
        let remove = move || remove_all(groups, Instant::now() + REMOVAL);
        let _ = std::thread::Builder::new().name("cgroups".into()).spawn(remove);
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

/// The groups in `parent` whose gateway is gone. Every process in them is killed.
fn abandoned(parent: &Path) -> Vec<ControlGroup> {
    let entries = fs::read_dir(parent).into_iter().flatten().filter_map(Result::ok);
    let is_ours = |name: &str| name.strip_prefix(PREFIX).is_some_and(|id| Uuid::try_parse(id).is_ok());
    let left = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
    let groups = left.filter_map(|entry| ControlGroup::locked(entry.path()).ok()).take(MOST_ABANDONED);
    let groups: Vec<ControlGroup> = groups.inspect(ControlGroup::kill).collect();
    if !groups.is_empty() {
        tracing::info!(groups = groups.len(), "killed the processes that a killed gateway left behind");
    }
    groups
}

/// Removes `groups`, whose processes are killed, and tries again until `end`. May block.
#[allow(clippy::disallowed_methods)] // only called on threads for blocking work
fn remove_all(mut groups: Vec<ControlGroup>, end: Instant) {
    loop {
        groups.retain(|group| !remove_tree(&group.path, end));
        if groups.is_empty() || Instant::now() >= end {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    for group in groups {
        tracing::warn!(path = %group.path.display(), "a control group cannot be removed");
    }
}

/// Removes the group at `path` after the groups in it. Returns whether it was removed. The length of a path limits the
/// depth.
fn remove_tree(path: &Path, end: Instant) -> bool {
    if fs::remove_dir(path).is_ok() {
        return true;
    }
    let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    for entry in inner {
        if Instant::now() >= end || !remove_tree(&entry.path(), end) {
            return false;
        }
    }
    fs::remove_dir(path).is_ok() || !path.exists()
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
        let [held, left] = [(); 2].map(|()| make(format!("{PREFIX}{}", Uuid::new_v4())));
        let others = make(format!("{PREFIX}backup.service"));
        let lock = File::open(&held).expect("opened");
        lock.try_lock().expect("locked");
        // A plain folder that contains the replacement for `cgroup.kill` cannot be removed.
        let groups = abandoned(folder.path());
        assert_eq!(groups.len(), 1);
        remove_all(groups, Instant::now());
        assert!(held.exists() && others.exists(), "left alone");
        assert!(!held.join("cgroup.kill").exists() && !others.join("cgroup.kill").exists(), "not killed");
        assert!(left.join("cgroup.kill").exists(), "killed");
    }

    #[test]
    fn groups_in_groups_are_removed_and_all_groups_share_one_time_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("a/b/c")).expect("made");
        fs::create_dir_all(tree.join("d")).expect("made");
        assert!(remove_tree(&tree, Instant::now() + REMOVAL) && !tree.exists());
        for number in 0..8 {
            let path = folder.path().join(format!("{PREFIX}{}", Uuid::new_v4()));
            fs::create_dir(&path).expect("made");
            fs::write(path.join("busy"), number.to_string()).expect("written");
        }
        let groups = abandoned(folder.path());
        assert_eq!(groups.len(), 8);
        let started = Instant::now();
        remove_all(groups, started + Duration::from_millis(100));
        eprintln!("8 groups that cannot be removed: given up after {:?}", started.elapsed());
        assert!(started.elapsed() < Duration::from_millis(700), "{:?}", started.elapsed());
    }
}

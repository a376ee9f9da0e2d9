//! The user and the control group that the program under test runs in. Root may read every process, so a test of what
//! one process can read of another one needs an ordinary user.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Gateway;

/// `nobody`.
const NOBODY: u32 = 65_534;
const PROGRAM: &str = env!("CARGO_BIN_EXE_switchyard");

/// How the program is started.
#[derive(Debug, Default)]
pub struct User {
    /// A copy of the program that `nobody` can reach, if it runs as that user; otherwise as the user of the tests.
    nobody: Option<PathBuf>,
    /// The control group that it is moved into first.
    group: Option<PathBuf>,
}

impl Gateway {
    /// As a user without privileges, if the tests run as root. Its folder belongs to that user then.
    pub fn unprivileged(mut self) -> Self {
        if rustix::process::geteuid().is_root() {
            let program = self.folder().join("switchyard");
            // A folder of the build may be closed to others.
            fs::copy(PROGRAM, &program).expect("the program can be copied");
            give(self.folder());
            self.user.nobody = Some(program);
        }
        self
    }

    /// In a control group.
    pub fn in_group(mut self, group: &Delegated) -> Self {
        self.user.group = Some(group.0.clone());
        self
    }
}

impl User {
    /// The program, without arguments.
    pub fn command(&self) -> Command {
        let mut words: Vec<String> = Vec::new();
        if let Some(group) = &self.group {
            let enter = r#"echo 0 >"$0/cgroup.procs" && exec "$@""#;
            words.extend(["/bin/sh".into(), "-c".into(), enter.into(), group.display().to_string()]);
        }
        match &self.nobody {
            Some(program) => {
                let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
                words.extend(["setpriv".to_owned()].into_iter().chain(ids));
                words.extend(["--clear-groups", "--inh-caps=-all", "--bounding-set=-all"].map(str::to_owned));
                words.push(program.display().to_string());
            }
            None => words.push(PROGRAM.to_owned()),
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }
}

fn give(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
    if path.is_dir() {
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("root may");
        fs::read_dir(path).expect("a folder").for_each(|entry| give(&entry.expect("an entry").path()));
    }
}

/// A control group that belongs to the user of the program, as a service manager delegates one.
#[derive(Debug)]
pub struct Delegated(PathBuf);

impl Delegated {
    /// None if this machine has no control groups of version 2, or the user of the tests may not make one.
    pub fn new() -> Option<Self> {
        let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = membership.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
        let name = format!("switchyard-test-{}", uuid::Uuid::new_v4());
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|root| Path::new(root).join(&own));
        let root = roots.into_iter().find(|root| root.join("cgroup.controllers").exists())?;
        let group = root.join(name);
        fs::create_dir(&group).ok()?;
        let delegated = Self(group);
        if rustix::process::geteuid().is_root() {
            for path in [delegated.0.clone(), delegated.0.join("cgroup.procs")] {
                chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
            }
        }
        delegated.0.join("cgroup.kill").exists().then_some(delegated)
    }

    /// How many control groups are in it.
    pub fn groups(&self) -> usize {
        let entries = fs::read_dir(&self.0).expect("it is there").filter_map(Result::ok);
        entries.filter(|entry| entry.path().is_dir()).count()
    }
}

impl Drop for Delegated {
    #[allow(clippy::disallowed_methods)] // at the end of a test
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        // Killed processes need a moment to end.
        let _ = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            let entries = fs::read_dir(&self.0).into_iter().flatten().filter_map(Result::ok);
            entries.for_each(|entry| _ = fs::remove_dir(entry.path()));
            fs::remove_dir(&self.0).is_ok()
        });
    }
}

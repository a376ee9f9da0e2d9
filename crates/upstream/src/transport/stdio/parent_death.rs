//! Children that end when Switchyard is killed.
//!
//! A child survives the kill of its parent unless it requested from the kernel to be killed too (`PR_SET_PDEATHSIG`).
//! The request must happen in the child between fork and exec, where only unsafe code runs. Switchyard's own program is
//! therefore started first, makes the request, and then executes the server's program.
//!
//! This works only in a program whose `main` calls [`enter`] first. In other programs, and on other systems than Linux,
//! children are started directly and notice the end of Switchyard by the end of their input.
//!
//! The signal follows the *thread* that forked: see the spawning thread in `child`. The child also enters its control
//! group here, if it has one (`cgroup`). Not covered: grandchildren without a control group, which see the end of their
//! input.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first argument of Switchyard's program when it is started to execute another one.
const MARKER: &str = "__become";
/// Replaces the path of a missing control group.
const NO_GROUP: &str = "-";
/// Switchyard's own program, even if its file was replaced meanwhile.
const OURSELVES: &str = "/proc/self/exe";

/// Whether `main` of this program called [`enter`].
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Must be called first in `main`, before any thread. Executes the program of a server if this process was started for
/// that, and returns otherwise.
pub fn enter() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == MARKER) {
        eprintln!("switchyard: {}", become_child(arguments));
        // 126: found but not executed, as in shells.
        std::process::exit(126);
    }
    ENTERED.store(cfg!(target_os = "linux"), Ordering::Relaxed);
}

/// Whether children are started through this program.
pub(super) fn is_entered() -> bool {
    ENTERED.load(Ordering::Relaxed)
}

/// Returns the program to start and its arguments, so that `program` runs with `arguments` in `group` and ends with
/// this process.
pub(super) fn through(
    program: &Path,
    arguments: &[String],
    group: Option<&Path>,
) -> (PathBuf, Vec<OsString>) {
    let direct = arguments.iter().map(OsString::from);
    if !is_entered() {
        return (program.to_owned(), direct.collect());
    }
    let (parent, group) = (std::process::id().to_string(), group.map_or(NO_GROUP.into(), OsString::from));
    let shim = [MARKER.into(), parent.into(), group, program.into()];
    (OURSELVES.into(), shim.into_iter().chain(direct).collect())
}

/// Returns only on failure, with the reason.
#[cfg(target_os = "linux")]
fn become_child(mut arguments: impl Iterator<Item = OsString>) -> String {
    use std::os::unix::process::CommandExt;

    let parent = arguments.next().and_then(|id| id.to_str()?.parse::<i32>().ok());
    let (Some(parent), Some(group), Some(program)) = (parent, arguments.next(), arguments.next()) else {
        return format!("{MARKER} is for internal use");
    };
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
    {
        return format!("cannot tie a child to its parent: {error}");
    }
    // The parent may have died before the line above.
    if rustix::process::getppid().map(|id| id.as_raw_nonzero().get()) != Some(parent) {
        return "the parent is gone".into();
    }
    if group != NO_GROUP
        && let Err(error) = super::cgroup::enter(Path::new(&group))
    {
        // The process group and the parent-death signal remain.
        eprintln!("switchyard: cannot enter the control group {}: {error}", group.display());
    }
    let error = std::process::Command::new(&program).args(arguments).exec();
    let advice = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; the interpreter in its first line needs execute permission, and a file system without `noexec`"
        }
        std::io::ErrorKind::NotFound => "; the interpreter in its first line does not exist",
        _ => "",
    };
    format!("cannot start {}: {error}{advice}", program.display())
}

/// Never called, because [`through`] starts children directly.
#[cfg(not(target_os = "linux"))]
fn become_child(_: impl Iterator<Item = OsString>) -> String {
    format!("{MARKER} is for internal use on Linux")
}

//! Closes the environment and the memory of this process to other processes of the same user.
//!
//! Child processes of stdio servers run as the user of the gateway. Linux would let them read `/proc/PID/environ`
//! and `/proc/PID/mem` of the gateway and attach a debugger to it, and so read every secret.
//!
//! Invariant: [`restrict`] runs before any argument, variable or file with a secret is read. If it fails, the
//! program does not start. A child is not affected, because `execve` resets the attribute.
//!
//! Not here: root and processes with `CAP_SYS_PTRACE`, which may read every process; systems other than Linux.

use std::ffi::OsStr;

/// The variable that allows debuggers, profilers and core dumps.
const SWITCH: &str = "SWITCHYARD_DUMPABLE";

/// The part of `--help` about variables that have no option.
pub(super) const HELP: &str = "\
Environment:
  SWITCHYARD_LOG         Log filter, such as `switchyard=debug` [default: warn,switchyard=info]
  SWITCHYARD_DUMPABLE=1  Allow debuggers, profilers and core dumps. Processes of the same user, child processes
                         included, can then read the environment and the memory of Switchyard";

/// Makes this process not dumpable (`prctl(2)`, `PR_SET_DUMPABLE`), unless the switch allows it.
pub(super) fn restrict() -> Result<(), String> {
    if is_allowed(std::env::var_os(SWITCH).as_deref())? {
        return Ok(());
    }
    close().map_err(|error| {
        format!("cannot close the memory of this process to other processes: {error}; set {SWITCH}=1 to run without")
    })
}

/// Logs a warning if the switch is on.
pub(super) fn warn_if_allowed() {
    if is_allowed(std::env::var_os(SWITCH).as_deref()) == Ok(true) {
        tracing::warn!("{SWITCH}=1: child processes can read the environment and the memory of Switchyard");
    }
}

fn is_allowed(value: Option<&OsStr>) -> Result<bool, String> {
    match value.map(OsStr::as_encoded_bytes) {
        None | Some(b"" | b"0") => Ok(false),
        Some(b"1") => Ok(true),
        Some(_) => Err(format!("{SWITCH} must be 0 or 1")),
    }
}

#[cfg(target_os = "linux")]
fn close() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Other systems have no attribute that `rustix` offers.
#[cfg(not(target_os = "linux"))]
fn close() -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_value_allows_access_and_unknown_values_are_refused() {
        for (value, allowed) in [(None, false), (Some(""), false), (Some("0"), false), (Some("1"), true)] {
            assert_eq!(is_allowed(value.map(OsStr::new)), Ok(allowed), "{value:?}");
        }
        for value in ["yes", "true", "2", "1 "] {
            assert!(is_allowed(Some(OsStr::new(value))).expect_err(value).contains("must be 0 or 1"));
        }
    }
}

//! Moments as whole seconds since 1970, as tokens and records write them.

use std::time::{Duration, SystemTime};

/// Returns `time` in seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the moment of `seconds` since 1970.
pub(crate) fn moment(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}

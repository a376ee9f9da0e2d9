//! Times as clients read them.

use std::time::SystemTime;

use tantivy::time::OffsetDateTime;
use tantivy::time::format_description::well_known::Rfc3339;

/// Formats a time as RFC 3339, in UTC and whole seconds.
pub(super) fn shown(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let time = i64::try_from(seconds).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

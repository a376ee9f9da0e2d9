//! [`LogLevel`]: the severity of a server's log message.
//!
//! The eight severities of RFC 5424 section 6.2.1, by their names in MCP. Source: `server/utilities/logging` of each
//! revision.
//!
//! Not here: the log of Switchyard (`telemetry`).

use std::fmt;

/// A severity. Later ones are more severe: `Debug < Info < … < Emergency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Entry and exit of functions.
    Debug,
    /// Progress of an operation.
    Info,
    /// A change of configuration.
    Notice,
    /// A deprecated feature is used.
    Warning,
    /// An operation failed.
    Error,
    /// A component failed.
    Critical,
    /// An operator must act now.
    Alert,
    /// The system cannot be used.
    Emergency,
}

impl LogLevel {
    /// Every level, least severe first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// Its name in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// Its name as JSON.
    pub(super) const fn as_json(self) -> &'static [u8] {
        match self {
            Self::Debug => b"\"debug\"",
            Self::Info => b"\"info\"",
            Self::Notice => b"\"notice\"",
            Self::Warning => b"\"warning\"",
            Self::Error => b"\"error\"",
            Self::Critical => b"\"critical\"",
            Self::Alert => b"\"alert\"",
            Self::Emergency => b"\"emergency\"",
        }
    }

    /// The level called `name`; `None` for any other text, capitals included.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_levels_ascend() {
        for level in LogLevel::ALL {
            assert_eq!(LogLevel::from_name(&level.to_string()), Some(level));
        }
        assert!(LogLevel::ALL.is_sorted_by(|one, next| one < next));
        assert!(LogLevel::Emergency > LogLevel::Debug);
    }

    #[test]
    fn anything_else_is_no_level() {
        for name in ["", "Debug", "WARNING", " info", "warn", "3", "emergency\0"] {
            assert_eq!(LogLevel::from_name(name), None, "{name:?}");
        }
    }
}

//! The revisions of MCP and the features of each one. Only this file knows what an era has.
//!
//! Source: the change logs of each revision (`docs/specification/*/changelog`).

use std::fmt;

use super::method;
use json::raw::Raw;

/// The two families of revisions: with a handshake and sessions, or without either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// Up to 2025-11-25: `initialize`, sessions, requests in both directions.
    Legacy,
    /// From 2026-07-28 on: every request describes itself, no sessions.
    Modern,
}

/// A published revision of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP+SSE.
    V2024_11_05,
    /// Streamable HTTP, batches.
    V2025_03_26,
    /// Version header, structured output, elicitation; no batches.
    V2025_06_18,
    /// Icons, tasks, URL elicitation, polling.
    V2025_11_25,
    /// Stateless.
    V2026_07_28,
}

impl Version {
    /// Every revision, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    /// The newest revision that begins with `initialize`.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;
    /// The newest revision without a handshake.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;
    /// The draft before 2024-11-05.
    pub const DRAFT: &str = "2024-10-07";

    /// The date that names the revision.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision called `name`, if it is a known one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == name)
    }

    /// The revision that a server means by `name`. The draft of 2024-10-07 has the messages of 2024-11-05, and common
    /// SDKs accept it.
    pub(crate) fn of_server(name: &str) -> Option<Self> {
        if name == Self::DRAFT { Some(Self::V2024_11_05) } else { Self::from_name(name) }
    }

    /// The protocol era of the revision.
    pub const fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
            Self::V2026_07_28 => Era::Modern,
        }
    }

    /// Whether it has no handshake and no sessions.
    pub fn is_modern(self) -> bool {
        self.era() == Era::Modern
    }

    /// Whether a client of this revision may send `method` to a server. Only methods that one of the two eras lacks are
    /// checked. Shared and unknown methods are allowed.
    pub fn has_method(self, name: &str) -> bool {
        match name {
            method::INITIALIZE
            | method::INITIALIZED
            | method::PING
            | method::SET_LEVEL
            | method::RESOURCES_SUBSCRIBE
            | method::RESOURCES_UNSUBSCRIBE => self.era() == Era::Legacy,
            method::DISCOVER | method::SUBSCRIPTIONS_LISTEN | method::TASKS_UPDATE => {
                self.era() == Era::Modern
            }
            method::TASKS_RESULT | method::TASKS_LIST => self == Self::V2025_11_25,
            method::TASKS_GET | method::TASKS_CANCEL => self >= Self::V2025_11_25,
            _ => true,
        }
    }

    /// Returns the revision for the response to `initialize`: the requested one if it has a handshake, otherwise the
    /// newest one that has. A client that requests 2026-07-28 here gets 2025-11-25.
    pub fn negotiate(requested: &str) -> Self {
        Self::from_name(requested)
            .filter(|version| version.era() == Era::Legacy)
            .unwrap_or(Self::NEWEST_LEGACY)
    }

    /// Whether HTTP requests carry `MCP-Protocol-Version` (since 2025-06-18).
    pub fn has_version_header(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether a server may send this server request to a client: never since 2026-07-28, elicitation since 2025-06-18,
    /// elicitation by URL since 2025-11-25.
    pub fn has_question(self, name: &str, params: Option<&Raw>) -> bool {
        let by_url =
            || params.and_then(|params| params.get_as::<String>("mode")).is_some_and(|mode| mode == "url");
        match name {
            _ if self.is_modern() => false,
            method::ELICITATION_CREATE if by_url() => self >= Self::V2025_11_25,
            method::ELICITATION_CREATE => self >= Self::V2025_06_18,
            _ => true,
        }
    }

    /// Whether a client reconnects by itself when Switchyard closes the connection of a stream. Then the stream begins
    /// with an event that has an id (polling, since 2025-11-25; removed in 2026-07-28).
    pub fn has_polling(self) -> bool {
        self == Self::V2025_11_25
    }

    /// The request that checks whether a server is alive: `ping`, which 2026-07-28 removed.
    pub fn health_method(self) -> &'static str {
        if self.is_modern() { method::DISCOVER } else { method::PING }
    }

    /// Whether a tool's structured result and its schema can have any type (since 2026-07-28). Before, both are
    /// objects.
    pub fn has_any_output(self) -> bool {
        self.is_modern()
    }

    /// Whether every result has a `resultType` (since 2026-07-28).
    pub fn has_result_type(self) -> bool {
        self.is_modern()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialize_never_ends_in_the_modern_era() {
        for (requested, answered) in [
            ("2024-11-05", Version::V2024_11_05),
            ("2025-06-18", Version::V2025_06_18),
            ("2026-07-28", Version::V2025_11_25),
            ("1999-01-01", Version::V2025_11_25),
            ("", Version::V2025_11_25),
        ] {
            assert_eq!(Version::negotiate(requested), answered, "{requested}");
        }
    }

    #[test]
    fn a_client_is_asked_only_what_its_revision_has() {
        let url = Raw::of(&serde_json::json!({"mode": "url"}));
        for (version, sampling, form, by_url) in [
            (Version::V2024_11_05, true, false, false),
            (Version::V2025_03_26, true, false, false),
            (Version::V2025_06_18, true, true, false),
            (Version::V2025_11_25, true, true, true),
            (Version::V2026_07_28, false, false, false),
        ] {
            assert_eq!(version.has_question(method::SAMPLING_CREATE_MESSAGE, None), sampling, "{version}");
            assert_eq!(version.has_question(method::ELICITATION_CREATE, None), form, "{version}");
            assert_eq!(version.has_question(method::ELICITATION_CREATE, Some(&url)), by_url, "{version}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for version in Version::ALL {
            assert_eq!(Version::from_name(version.as_str()), Some(version));
        }
        assert_eq!(Version::from_name("2026-07-28 "), None);
    }
}

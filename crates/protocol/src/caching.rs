//! How long a result may be kept, and by whom.
//!
//! Source: 2026-07-28 `server/utilities/caching`. Several results that become one are kept as long
//! as the one that may be kept shortest, and by nobody who may not keep one of them.

use super::version::Era;
use json::raw::Raw;

/// The member with the time, in milliseconds.
pub const TTL: &str = "ttlMs";
/// The member with whose cache may keep it.
pub const SCOPE: &str = "cacheScope";
/// How long a list may be kept whose server says nothing of it because its era does not. We are
/// told of changes, so it is short enough for those who do not listen and long enough for the rest.
const LEGACY_TTL_MS: u64 = 60_000;

/// How long a result may be kept, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caching {
    /// For so many milliseconds.
    pub ttl_ms: u64,
    /// By caches that several clients share, and not by one client alone.
    pub is_public: bool,
}

impl Caching {
    /// Not at all.
    pub const NONE: Self = Self { ttl_ms: 0, is_public: false };
    /// What is said for a server that says nothing because its era does not.
    pub const LEGACY: Self = Self { ttl_ms: LEGACY_TTL_MS, is_public: false };

    /// What `result` says, of a server that speaks a revision of `era`. What is missing or makes no
    /// sense means: not at all, and not for others.
    pub fn of(result: &Raw, era: Era) -> Self {
        let default = match era {
            Era::Legacy => Self::LEGACY,
            Era::Modern => Self::NONE,
        };
        let scope: Option<String> = result.get_as(SCOPE);
        Self {
            ttl_ms: result.get(TTL).map_or(default.ttl_ms, |ttl| ttl.read().unwrap_or_default()),
            is_public: scope.as_deref() == Some("public"),
        }
    }

    /// What holds for both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { ttl_ms: self.ttl_ms.min(other.ttl_ms), is_public: self.is_public && other.is_public }
    }

    /// What holds for all of `parts`; of none, what is said for a server that says nothing.
    pub fn of_all(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().reduce(Self::and).unwrap_or(Self::LEGACY)
    }

    /// `public` or `private`.
    pub const fn scope(self) -> &'static str {
        if self.is_public { "public" } else { "private" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &serde_json::Value, era: Era) -> (u64, &'static str) {
        let caching = Caching::of(&Raw::of(json), era);
        (caching.ttl_ms, caching.scope())
    }

    #[test]
    fn what_is_not_said_is_not_allowed() {
        let both = serde_json::json!({"ttlMs": 5000, "cacheScope": "public"});
        assert_eq!(of(&both, Era::Modern), (5000, "public"));
        for odd in [
            serde_json::json!({}),
            serde_json::json!({"ttlMs": -1, "cacheScope": "Public"}),
            serde_json::json!({"ttlMs": "5", "cacheScope": null}),
            serde_json::json!({"ttlMs": null, "cacheScope": ["public"]}),
            serde_json::json!({"ttlMs": 1.5}),
        ] {
            assert_eq!(of(&odd, Era::Modern), (0, "private"), "{odd}");
        }
        assert_eq!(of(&serde_json::json!({}), Era::Legacy), (60_000, "private"));
    }

    #[test]
    fn the_strictest_part_counts() {
        let long = Caching { ttl_ms: 9, is_public: true };
        let private = Caching { ttl_ms: 7, is_public: false };
        assert_eq!(Caching::of_all([long, long]), long);
        assert_eq!(Caching::of_all([long, private]), private);
        assert_eq!(Caching::of_all([]), Caching::LEGACY);
    }
}

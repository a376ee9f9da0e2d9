//! How long a result may be cached, and for whom.
//!
//! Source: 2026-07-28 `server/utilities/caching`. A result that was merged from several has the shortest time of them,
//! and is public only if all of them are.

use super::version::Era;
use json::raw::Raw;

/// The member with the time, in milliseconds.
pub const TTL: &str = "ttlMs";
/// The member that says whose cache may keep the result.
pub const SCOPE: &str = "cacheScope";
/// The cache time of a list whose server declares none because it is a legacy server. Switchyard is notified of
/// changes, so the time is short for clients that do not listen and long enough for all others.
const LEGACY_TTL_MS: u64 = 60_000;

/// How long a result may be cached, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caching {
    /// The time in milliseconds.
    pub ttl_ms: u64,
    /// Whether a cache that several clients share may keep it.
    pub is_public: bool,
}

impl Caching {
    /// The result may not be cached.
    pub const NONE: Self = Self { ttl_ms: 0, is_public: false };
    /// The values for a legacy server, which declares none.
    pub const LEGACY: Self = Self { ttl_ms: LEGACY_TTL_MS, is_public: false };

    /// Reads the values that `result` declares, from a server that speaks a revision of `era`. A missing or invalid
    /// value forbids caching, or restricts it to one client.
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

    /// Returns the stricter values of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { ttl_ms: self.ttl_ms.min(other.ttl_ms), is_public: self.is_public && other.is_public }
    }

    /// Returns the strictest values of `parts`, or those of a legacy server if there are none.
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
    fn absent_or_invalid_cache_hint_has_the_default_of_its_era() {
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

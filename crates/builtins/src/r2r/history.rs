//! Recent queries of each client.
//!
//! Invariants: a client gets only its own queries: those of its session, or of its principal and capabilities if there
//! are no sessions. Programs that call over REST have no history. The history is in memory only, and the oldest
//! entries are dropped first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use upstream::api::Affinity;

/// Queries in the answer for a client.
const SHOWN: usize = 10;
/// Most clients with a history.
const MOST_CLIENTS: usize = 256;
/// Longest query that is kept, in bytes.
const MOST_BYTES: usize = 500;

/// The queries of all clients.
#[derive(Default)]
pub(super) struct History(Mutex<VecDeque<Own>>);

struct Own {
    affinity: Affinity,
    queries: VecDeque<RecordedQuery>,
}

/// One query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct RecordedQuery {
    /// The query, cut after 500 bytes.
    #[serde(rename = "query")]
    pub text: String,
    /// Which tool.
    pub tool: &'static str,
    /// When, RFC 3339 in UTC.
    pub timestamp: String,
}

impl History {
    /// Records that `affinity` sent `query`.
    pub(super) fn record(&self, affinity: Option<&Affinity>, tool: &'static str, query: &str) {
        let Some(affinity) = affinity else { return };
        let query = query[..query.floor_char_boundary(MOST_BYTES)].to_owned();
        let mut all = self.lock();
        // The client of the last query is at the end, so the client without a query for the longest time is
        // dropped.
        let known = all.iter().position(|own| own.affinity == *affinity).and_then(|at| all.remove(at));
        let mut own = known.unwrap_or_else(|| Own { affinity: affinity.clone(), queries: VecDeque::new() });
        if own.queries.len() == SHOWN {
            own.queries.pop_back();
        }
        own.queries.push_front(RecordedQuery { text: query, tool, timestamp: now() });
        if all.len() == MOST_CLIENTS {
            all.pop_front();
        }
        all.push_back(own);
    }

    /// Returns the recent queries of `affinity`, the last one first.
    pub(super) fn of(&self, affinity: Option<&Affinity>) -> Vec<RecordedQuery> {
        let all = self.lock();
        let own = affinity.and_then(|affinity| all.iter().find(|own| own.affinity == *affinity));
        own.map(|own| own.queries.iter().cloned().collect()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Own>> {
        // Every write leaves a valid state, so a panic elsewhere does not matter.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the current time as RFC 3339, in UTC and whole seconds.
fn now() -> String {
    let now = OffsetDateTime::now_utc();
    now.replace_nanosecond(0).unwrap_or(now).format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use json::Raw;

    fn of_principal() -> Affinity {
        Affinity::of_principal("p".into(), &Raw::empty_object())
    }

    fn texts(history: &History, affinity: &Affinity) -> Vec<String> {
        history.of(Some(affinity)).into_iter().map(|query| query.text).collect()
    }

    #[test]
    fn everybody_sees_the_last_ten_of_their_own() {
        let history = History::default();
        let (one, other) = (Affinity::session(), of_principal());
        for n in 0..12 {
            history.record(Some(&one), "t", &format!("one {n}"));
        }
        history.record(Some(&other), "t", "other");
        history.record(None, "t", "a program");
        assert_eq!(texts(&history, &one).len(), 10);
        assert_eq!(texts(&history, &one)[0], "one 11");
        assert_eq!(texts(&history, &of_principal()), ["other"]);
        assert!(texts(&history, &Affinity::session()).is_empty() && history.of(None).is_empty());
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let history = History::default();
        let first = Affinity::session();
        history.record(Some(&first), "t", &"ä".repeat(10_000));
        assert_eq!(texts(&history, &first)[0].len(), 500);
        for _ in 0..MOST_CLIENTS {
            history.record(Some(&Affinity::session()), "t", "x");
        }
        assert!(texts(&history, &first).is_empty(), "it was silent longest");
        assert_eq!(history.lock().len(), MOST_CLIENTS);
    }
}

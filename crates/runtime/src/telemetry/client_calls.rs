//! Tool calls by the name that their client gives itself.
//!
//! Invariants: at most [`MAX_CLIENTS`] names have a count of their own. A new name takes the place of the one with the fewest
//! calls, whose count moves to the others. Names that clients make up therefore push out each other and not those in use.
//! No call is lost, and a name is cut at [`MAX_NAME`] bytes.
//!
//! Not here: who may see the names (`admin`).

use std::sync::{Mutex, PoisonError};

/// The most names.
const MAX_CLIENTS: usize = 32;
/// The longest name in bytes.
const MAX_NAME: usize = 64;

/// The calls of each client since the start.
#[derive(Debug, Default)]
pub struct ClientCalls(Mutex<CallCounts>);

#[derive(Debug, Default)]
struct CallCounts {
    /// So few that a scan costs less than a hash.
    named: Vec<(Box<str>, u64)>,
    others: u64,
}

impl ClientCalls {
    /// Counts a call of the client `name`.
    pub fn count(&self, name: &str) {
        let name = &name[..name.floor_char_boundary(MAX_NAME)];
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, calls)) = counts.named.iter_mut().find(|(known, _)| **known == *name) {
            *calls += 1;
            return;
        }
        if counts.named.len() == MAX_CLIENTS {
            let fewest = counts.named.iter().enumerate().min_by_key(|(_, (_, calls))| *calls);
            let fewest = fewest.map_or(0, |(at, _)| at);
            counts.others += counts.named.swap_remove(fewest).1;
        }
        counts.named.push((name.into(), 1));
    }

    /// The names with their calls, sorted by name, and the calls of all others.
    pub fn counted(&self) -> (Vec<(Box<str>, u64)>, u64) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut named = counts.named.clone();
        named.sort();
        (named, counts.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_clients_make_up_push_out_each_other_and_no_call_is_lost() {
        let calls = ClientCalls::default();
        for _ in 0..3 {
            calls.count("claude-code");
        }
        for number in 0..1_000 {
            calls.count(&format!("made-up-{number}"));
        }
        calls.count(&"é".repeat(100));
        let (named, others) = calls.counted();
        assert!(named.contains(&("claude-code".into(), 3)) && named.contains(&("é".repeat(32).into(), 1)));
        assert_eq!(named.len(), MAX_CLIENTS);
        assert_eq!(named.iter().map(|(_, calls)| calls).sum::<u64>() + others, 1_004);
    }
}

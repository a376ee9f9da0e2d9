//! Signs that a server keeps state for each client, as far as they were seen.
//!
//! Invariants: a sign that was seen stays. A child process is shared until it shows one that concerns the
//! client. Clients that had called it before stay there until a request to them was refused ([`Affinity::leaves`]).
//!
//! Not here: where a sign is noticed (`transport::inbound`, `stateful`), and the connections (`pool`).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::session_affinity::Affinity;
use json::Raw;
use protocol::method;

/// A sign that a server keeps state for each client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateSign {
    /// It asked a client for its roots.
    AsksForRoots,
    /// It asked a client for a text of its language model.
    AsksForSampling,
    /// It asked a client for input of its user.
    AsksForElicitation,
    /// It changed a list during or just after a call of one client.
    ListChangedByCall,
}

impl StateSign {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::AsksForRoots, Self::AsksForSampling, Self::AsksForElicitation, Self::ListChangedByCall];

    /// The sign with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sign| sign.as_str() == word)
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AsksForRoots => "asks_for_roots",
            Self::AsksForSampling => "asks_for_sampling",
            Self::AsksForElicitation => "asks_for_elicitation",
            Self::ListChangedByCall => "list_changed_by_call",
        }
    }

    /// Returns the sign that a server gives by sending its client a request of `method`.
    pub(super) fn of_request(method: &str) -> Option<Self> {
        match method {
            method::ROOTS_LIST => Some(Self::AsksForRoots),
            method::SAMPLING_CREATE_MESSAGE => Some(Self::AsksForSampling),
            method::ELICITATION_CREATE => Some(Self::AsksForElicitation),
            _ => None,
        }
    }

    /// Whether it concerns a client that declares `capabilities`; `None` for one that is sent no requests.
    fn concerns(self, capabilities: Option<&Raw>) -> bool {
        let capability = match self {
            Self::AsksForRoots => "roots",
            Self::AsksForSampling => "sampling",
            Self::AsksForElicitation => "elicitation",
            Self::ListChangedByCall => return true,
        };
        capabilities.is_some_and(|capabilities| capabilities.part(capability).is_some())
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The signs of one server.
#[derive(Debug)]
pub(super) struct StateSigns {
    /// The number of its server, for sessions that remember which ones they called.
    server: u64,
    seen: AtomicU8,
    is_told: AtomicBool,
    /// Whether a client with roots began and was asked for nothing.
    is_quiet_at_start: AtomicBool,
}

impl Default for StateSigns {
    fn default() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let server = LAST.fetch_add(1, Ordering::Relaxed);
        Self {
            server,
            seen: AtomicU8::new(0),
            is_told: AtomicBool::new(false),
            is_quiet_at_start: AtomicBool::new(false),
        }
    }
}

impl StateSigns {
    /// Records a sign.
    pub(super) fn record(&self, sign: StateSign) {
        self.seen.fetch_or(sign.bit(), Ordering::Relaxed);
    }

    /// Records the signs that an earlier program saw.
    pub(super) fn restore(&self, signs: &[StateSign]) {
        for sign in signs {
            self.record(*sign);
        }
    }

    /// Whether the first sign is to be reported. Returns true once.
    pub(super) fn has_to_tell(&self) -> bool {
        !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Records that a client with roots began, and that the server asked it for nothing.
    pub(super) fn record_quiet_start(&self) {
        self.is_quiet_at_start.store(true, Ordering::Relaxed);
    }

    /// Whether that was seen, so that the next client need not wait for a request.
    pub(super) fn is_quiet_at_start(&self) -> bool {
        self.is_quiet_at_start.load(Ordering::Relaxed)
    }

    /// Whether `sign` was seen.
    pub(super) fn has(&self, sign: StateSign) -> bool {
        self.seen.load(Ordering::Relaxed) & sign.bit() != 0
    }

    /// Whether results may depend on the client that asks.
    pub(super) fn differ_by_client(&self) -> bool {
        self.has(StateSign::ListChangedByCall) || self.has(StateSign::AsksForRoots)
    }

    /// Those that were seen.
    pub(super) fn all(&self) -> Vec<StateSign> {
        StateSign::ALL.into_iter().filter(|sign| self.has(*sign)).collect()
    }

    /// Whether the client of `affinity` gets a process of its own because of them. It declares `capabilities`; `None` if the
    /// process speaks the modern era with it, in which there are no requests of servers.
    pub(super) fn separates(&self, affinity: &Affinity, capabilities: Option<&Raw>) -> bool {
        self.seen.load(Ordering::Relaxed) != 0
            && !affinity.stays(self.server)
            && StateSign::ALL.into_iter().any(|sign| self.has(sign) && sign.concerns(capabilities))
    }

    /// Records a call of the client of `affinity` to the process that clients share.
    pub(super) fn called_by(&self, affinity: &Affinity) {
        affinity.joins(self.server);
    }

    /// Records that a request of the shared process was refused while the client of `affinity` had a call there.
    pub(super) fn refused(&self, affinity: &Affinity) {
        affinity.leaves(self.server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Raw {
        Raw::parse(&bytes::Bytes::from(json.to_owned())).expect("JSON")
    }

    #[test]
    fn a_session_that_called_the_shared_process_stays_until_that_refused_to_ask() {
        let (signs, form) = (StateSigns::default(), raw(r#"{"elicitation":{}}"#));
        let (before, after) = (Affinity::session(), Affinity::session());
        signs.called_by(&before);
        assert!(!signs.separates(&after, Some(&form)));
        signs.record(StateSign::AsksForElicitation);
        assert!(!signs.separates(&before, Some(&form)) && signs.separates(&after, Some(&form)));
        assert!(!signs.separates(&after, Some(&raw("{}"))), "it cannot be asked");
        assert!(!signs.separates(&after, None), "and nobody is in the modern era");
        assert!(
            signs.separates(&Affinity::of_principal("key:a".into(), &form), Some(&form)),
            "each of its requests is new"
        );
        signs.refused(&before);
        assert!(signs.separates(&before, Some(&form)));
        signs.record(StateSign::ListChangedByCall);
        assert!(signs.separates(&after, Some(&raw("{}"))), "its lists are for each client");
        assert!(signs.separates(&after, None), "in both eras");
        assert_eq!(signs.all(), [StateSign::AsksForElicitation, StateSign::ListChangedByCall]);
    }
}

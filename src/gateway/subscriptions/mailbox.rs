//! What one listener asked to be told, and what waits for it: of a legacy session, or of one
//! `subscriptions/listen`.
//!
//! It outlives the streams it is read from, so nothing is lost between two of them and nothing is
//! told twice. Invariants: what waits is bounded, because updates of one resource are one; several
//! changes of one list are one.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::manager::Revisions;
use crate::protocol::feature::{List, Lists};
use crate::protocol::{LogLevel, Notification};

/// Notices that may wait; after that the oldest goes.
const MAX_WAITING: usize = 512;

/// What a listener asked for and what waits for it.
#[derive(Debug, Default)]
pub struct Mailbox {
    state: Mutex<State>,
    /// Changes when something was put in.
    arrivals: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    lists: Lists,
    told: Revisions,
    waiting: VecDeque<Waiting>,
    log_level: Option<LogLevel>,
}

#[derive(Debug)]
struct Waiting {
    /// What it is about; a later notice about the same takes its place.
    about: Option<String>,
    notice: Notification,
}

impl Mailbox {
    /// Tells of changes of `lists` from now on, where `known` is what the listener knows.
    pub fn listen_to(&self, lists: Lists, known: Revisions) {
        let mut state = self.state();
        (state.lists, state.told) = (lists, known);
    }

    /// Puts a notice in. One that is about the same as one that waits replaces it.
    pub fn put(&self, notice: Notification, about: Option<String>) {
        let mut state = self.state();
        let same = about.is_some().then(|| state.waiting.iter().position(|other| other.about == about));
        if let Some(at) = same.flatten() {
            state.waiting[at].notice = notice;
            return;
        }
        if state.waiting.len() >= MAX_WAITING {
            state.waiting.pop_front();
        }
        state.waiting.push_back(Waiting { about, notice });
        drop(state);
        self.arrivals.send_replace(());
    }

    /// The least level of log lines it wants, if it said so.
    pub fn log_level(&self) -> Option<LogLevel> {
        self.state().log_level
    }

    /// It wants log lines of this level and above from now on.
    pub fn set_log_level(&self, level: LogLevel) {
        self.state().log_level = Some(level);
    }

    /// Resolves for the owner of this receiver when something was put in.
    pub(super) fn arrivals(&self) -> watch::Receiver<()> {
        self.arrivals.subscribe()
    }

    /// What waits longest.
    pub(super) fn take(&self) -> Option<Notification> {
        self.state().waiting.pop_front().map(|waiting| waiting.notice)
    }

    /// One of the lists it listens to that is not as it knows it; from now on it knows.
    pub(super) fn take_changed(&self, now: Revisions) -> Option<List> {
        let mut state = self.state();
        let changed = state.lists.iter().find(|list| state.told.of(*list) != now.of(*list))?;
        state.told.note(changed, now);
        Some(changed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(name: &str) -> Notification {
        Notification { method: name.to_owned(), params: None }
    }

    #[test]
    fn what_is_about_the_same_is_told_once_with_the_newest() {
        let mailbox = Mailbox::default();
        mailbox.put(notice("1"), Some("a".into()));
        mailbox.put(notice("2"), Some("b".into()));
        mailbox.put(notice("3"), Some("a".into()));
        mailbox.put(notice("4"), None);
        mailbox.put(notice("5"), None);
        let told: Vec<String> = std::iter::from_fn(|| mailbox.take()).map(|notice| notice.method).collect();
        assert_eq!(told, ["3", "2", "4", "5"]);
    }

    #[test]
    fn a_listener_that_never_reads_costs_a_bounded_amount() {
        let mailbox = Mailbox::default();
        for number in 0..2 * MAX_WAITING {
            mailbox.put(notice(&number.to_string()), None);
        }
        assert_eq!(mailbox.state().waiting.len(), MAX_WAITING);
        assert_eq!(mailbox.take(), Some(notice(&MAX_WAITING.to_string())), "the oldest went");
    }
}

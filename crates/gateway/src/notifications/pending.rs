//! Pending notifications of one listener.
//!
//! Invariants: pending notifications are bounded. Several updates of one resource become one. The memory budget is
//! charged for pending notifications, and with them for the subscriptions of the listener. If it has no room, the
//! newest notification is dropped.
//!
//! Not here: the subscriptions themselves (`mailbox`), and who notifies whom (`notification_router`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use protocol::Notification;
use runtime::memory::{Account, Charge, ChargeKind};
use runtime::telemetry::limit::Limit;

/// Limit of pending notifications; beyond it the oldest is dropped.
const MAX_WAITING: usize = 512;
/// Limit of the bytes of pending notifications; beyond it the oldest is dropped.
const MAX_WAITING_BYTES: usize = 256 * 1024;
/// Overhead of a notification in bytes, beside its text.
const EACH: usize = 256;

/// The pending notifications of one listener, in the order in which they came.
#[derive(Debug)]
pub(crate) struct PendingNotifications {
    state: Mutex<State>,
    /// Changes when a notification was added.
    arrivals: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<WaitingNotice>,
    /// Bytes of pending notifications, charged to the listener.
    bytes: usize,
    /// Bytes of its subscriptions, also charged to it.
    subscribed: usize,
    charge: Charge,
}

#[derive(Debug)]
struct WaitingNotice {
    /// The subject of the notification; a later one with the same subject replaces it.
    about: Option<String>,
    notice: Notification,
}

impl WaitingNotice {
    fn size(&self) -> usize {
        let params = self.notice.params.as_ref().map_or(0, |params| params.bytes().len());
        EACH + params + self.about.as_ref().map_or(0, String::len)
    }
}

impl State {
    fn take(&mut self) -> Option<WaitingNotice> {
        let oldest = self.waiting.pop_front()?;
        self.count();
        Some(oldest)
    }

    /// Charges the pending notifications; those without room are dropped, the newest first.
    fn count(&mut self) {
        self.bytes = self.waiting.iter().map(WaitingNotice::size).sum();
        while self.charge.resize(self.bytes + self.subscribed).is_err() {
            let Some(newest) = self.waiting.pop_back() else { return };
            self.bytes -= newest.size();
            Limit::SessionNotices.met(());
        }
    }
}

impl PendingNotifications {
    /// No notifications, for a listener of `principal`.
    pub(super) fn of(principal: &Arc<str>) -> Self {
        let charge = Charge::open(Account::Principal(Arc::clone(principal)), ChargeKind::Notice);
        let state = State { waiting: VecDeque::new(), bytes: 0, subscribed: 0, charge };
        Self { state: Mutex::new(state), arrivals: watch::Sender::default() }
    }

    /// Adds a notification. It replaces a pending one with the same subject.
    pub(super) fn put(&self, notice: Notification, about: Option<String>) {
        let mut state = self.state();
        let same = about.is_some().then(|| state.waiting.iter().position(|other| other.about == about));
        if let Some(at) = same.flatten() {
            state.waiting[at].notice = notice;
            state.count();
            return;
        }
        state.waiting.push_back(WaitingNotice { about, notice });
        state.count();
        while state.waiting.len() > MAX_WAITING || state.bytes > MAX_WAITING_BYTES {
            Limit::SessionNotices.met(state.take());
        }
        drop(state);
        self.arrivals.send_replace(());
    }

    /// Removes and returns the oldest notification.
    pub(super) fn take(&self) -> Option<Notification> {
        self.state().take().map(|waiting| waiting.notice)
    }

    /// A receiver that changes when a notification was added.
    pub(crate) fn arrivals(&self) -> watch::Receiver<()> {
        self.arrivals.subscribe()
    }

    /// Wakes the readers, so that they look again.
    pub(super) fn wake(&self) {
        self.arrivals.send_replace(());
    }

    /// Charges a further subscription of `bytes`, if the memory budget has room for it.
    pub(super) fn admit(&self, bytes: usize) -> bool {
        let mut state = self.state();
        let all = state.subscribed + bytes;
        let room = state.bytes + all;
        let has_room = state.charge.resize(room).is_ok();
        if has_room {
            state.subscribed = all;
        }
        has_room
    }

    /// Releases the charge of `bytes` for a subscription that ends.
    pub(super) fn release(&self, bytes: usize) {
        let mut state = self.state();
        state.subscribed -= bytes;
        state.count();
    }

    /// Releases the charge of all subscriptions.
    pub(super) fn release_all(&self) {
        let mut state = self.state();
        state.subscribed = 0;
        state.count();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that are charged, and those that should be.
    #[cfg(test)]
    pub(super) fn charged(&self) -> (usize, usize) {
        let state = self.state();
        (state.charge.bytes(), state.bytes + state.subscribed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(name: &str) -> Notification {
        Notification { method: name.into(), params: None }
    }

    #[test]
    fn notifications_of_one_subject_are_sent_once_with_the_newest() {
        let pending = PendingNotifications::of(&"a".into());
        pending.put(notice("1"), Some("a".into()));
        pending.put(notice("2"), Some("b".into()));
        pending.put(notice("3"), Some("a".into()));
        pending.put(notice("4"), None);
        pending.put(notice("5"), None);
        let notified: Vec<String> =
            std::iter::from_fn(|| pending.take()).map(|notice| notice.method.to_string()).collect();
        assert_eq!(notified, ["3", "2", "4", "5"]);
    }

    #[test]
    fn a_listener_that_never_reads_costs_a_bounded_amount() {
        let pending = PendingNotifications::of(&"a".into());
        for number in 0..2 * MAX_WAITING {
            pending.put(notice(&number.to_string()), None);
        }
        assert_eq!(pending.state().waiting.len(), MAX_WAITING);
        assert_eq!(pending.take(), Some(notice(&MAX_WAITING.to_string())), "the oldest went");
    }
}

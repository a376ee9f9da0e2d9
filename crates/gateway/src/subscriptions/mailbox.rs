//! Subscriptions of one listener and its pending notifications. A listener is a legacy session or one
//! `subscriptions/listen`.
//!
//! The mailbox outlives the streams that read from it, so no notification is lost or repeated between
//! two streams. Invariants: pending notifications are bounded. Several updates of one resource become
//! one, and so do several changes of one list. The memory budget is charged for pending notifications
//! and all subscriptions.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::manager::Revisions;
use crate::subscriptions::notification_router::Subscription;
use protocol::feature::{List, Lists};
use protocol::{LogLevel, Notification};
use runtime::memory::{Account, Charge, Kind};
use runtime::telemetry::limit::Limit;

/// Limit of pending notifications; beyond it the oldest is dropped.
const MAX_WAITING: usize = 512;
/// Limit of the bytes of pending notifications; beyond it the oldest is dropped.
const MAX_WAITING_BYTES: usize = 256 * 1024;
/// Overhead of a notification in bytes, beside its text.
const EACH: usize = 256;
/// Resources that one listener may be subscribed to at a time.
pub(super) const MAX_SUBSCRIPTIONS: usize = 256;
/// Limit of pages and tasks that one listener waits for; beyond it the oldest is dropped.
const MAX_EXPECTED: usize = 64;

/// Subscriptions and pending notifications of one listener.
#[derive(Debug)]
pub struct Mailbox {
    state: Mutex<State>,
    /// Whether the listener must still be notified why its server is down.
    owes_reason: AtomicBool,
    /// Changes when a notification was added.
    arrivals: watch::Sender<()>,
    /// Whether the listener has received a list. Only then is it notified when the list changes.
    has_listed: AtomicBool,
}

#[derive(Debug)]
struct State {
    lists: Lists,
    told: Revisions,
    waiting: VecDeque<Waiting>,
    /// Bytes of pending notifications, charged to the listener.
    bytes: usize,
    /// Bytes of its subscriptions, also charged to it.
    subscribed: usize,
    charge: Charge,
    log_level: Option<LogLevel>,
    /// By the URI of the subscription.
    subscriptions: HashMap<String, Subscription>,
    /// Tasks and other one-time events that the listener waits for.
    expected: VecDeque<Subscription>,
    /// How many connection attempts are still finding the first lists of the listener.
    waits: usize,
    is_closed: bool,
}

/// While it exists, a listener without a list is not notified of changes.
#[derive(Debug)]
pub struct Wait<'a>(&'a Mailbox);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.state().waits -= 1;
        self.0.arrivals.send_replace(());
    }
}

#[derive(Debug)]
struct Waiting {
    /// The subject of the notification; a later one with the same subject replaces it.
    about: Option<String>,
    notice: Notification,
}

impl Waiting {
    fn size(&self) -> usize {
        let params = self.notice.params.as_ref().map_or(0, |params| params.bytes().len());
        EACH + params + self.about.as_ref().map_or(0, String::len)
    }
}

impl State {
    fn take(&mut self) -> Option<Waiting> {
        let oldest = self.waiting.pop_front()?;
        self.count();
        Some(oldest)
    }

    /// Charges the pending notifications; those without room are dropped, the newest first.
    fn count(&mut self) {
        self.bytes = self.waiting.iter().map(Waiting::size).sum();
        while self.charge.resize(self.bytes + self.subscribed).is_err() {
            let Some(newest) = self.waiting.pop_back() else { return };
            self.bytes -= newest.size();
            Limit::SessionNotices.met(());
        }
    }

    /// Charges a further subscription, if the memory budget has room for it.
    fn admit(&mut self, subscription: &Subscription) -> bool {
        let all = self.subscribed + subscription.size();
        let has_room = self.charge.resize(self.bytes + all).is_ok();
        if has_room {
            self.subscribed = all;
        }
        has_room
    }

    /// Releases the charge of a subscription that ends.
    fn release(&mut self, ended: Option<Subscription>) -> Option<Subscription> {
        self.subscribed -= ended.as_ref().map_or(0, Subscription::size);
        self.count();
        ended
    }
}

impl Mailbox {
    /// An empty mailbox for a listener of `principal`.
    pub fn of(principal: &Arc<str>) -> Self {
        let state = State {
            lists: Lists::default(),
            told: Revisions::default(),
            waiting: VecDeque::new(),
            bytes: 0,
            subscribed: 0,
            charge: Charge::open(Account::Principal(Arc::clone(principal)), Kind::Notice),
            log_level: None,
            subscriptions: HashMap::new(),
            expected: VecDeque::new(),
            waits: 0,
            is_closed: false,
        };
        Self {
            state: Mutex::new(state),
            owes_reason: AtomicBool::default(),
            arrivals: watch::Sender::default(),
            has_listed: AtomicBool::default(),
        }
    }

    /// Sends notifications of changes of `lists` from now on; `known` is the version that the listener
    /// has.
    pub fn listen_to(&self, lists: Lists, known: Revisions) {
        let mut state = self.state();
        (state.lists, state.told) = (lists, known);
    }

    /// Whether the listener must still be notified why its server is down.
    pub fn owes_reason(&self) -> bool {
        self.owes_reason.load(Ordering::Relaxed)
    }

    /// Records whether the listener must still be notified why its server is down.
    pub fn owe_reason(&self, owes: bool) {
        self.owes_reason.store(owes, Ordering::Relaxed);
    }

    /// Records that the listener has received a list.
    pub fn note_listed(&self) {
        self.has_listed.store(true, Ordering::Relaxed);
    }

    /// Sets `known` as the versions that the listener has, unless it has received a list before.
    pub fn begin_with(&self, known: Revisions) {
        if !self.has_listed.load(Ordering::Relaxed) {
            self.state().told = known;
        }
    }

    /// Marks that the first lists of the listener are being found.
    pub fn wait(&self) -> Wait<'_> {
        self.state().waits += 1;
        Wait(self)
    }

    /// Adds a notification. It replaces a pending one with the same subject.
    pub fn put(&self, notice: Notification, about: Option<String>) {
        let mut state = self.state();
        let same = about.is_some().then(|| state.waiting.iter().position(|other| other.about == about));
        if let Some(at) = same.flatten() {
            state.waiting[at].notice = notice;
            state.count();
            return;
        }
        state.waiting.push_back(Waiting { about, notice });
        state.count();
        while state.waiting.len() > MAX_WAITING || state.bytes > MAX_WAITING_BYTES {
            Limit::SessionNotices.met(state.take());
        }
        drop(state);
        self.arrivals.send_replace(());
    }

    /// Ends all subscriptions; later notifications are dropped.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let ended = (std::mem::take(&mut state.subscriptions), std::mem::take(&mut state.expected));
        state.subscribed = 0;
        state.count();
        drop(state);
        drop(ended);
    }

    /// Stores a subscription to `uri`. Returns it if there is no room, or if the mailbox is closed.
    pub(super) fn subscribe(&self, uri: String, subscription: Subscription) -> Result<(), Subscription> {
        let mut state = self.state();
        let has_room = state.subscriptions.len() < MAX_SUBSCRIPTIONS;
        if state.is_closed {
            return Err(subscription);
        }
        if !has_room && !state.subscriptions.contains_key(&uri) {
            return Err(Limit::Subscriptions.met(subscription));
        }
        if !state.admit(&subscription) {
            return Err(Limit::Subscriptions.met(subscription));
        }
        let before = state.subscriptions.insert(uri, subscription);
        let before = state.release(before);
        drop(state);
        drop(before);
        Ok(())
    }

    /// Ends the subscription to `uri`.
    pub(super) fn unsubscribe(&self, uri: &str) {
        let mut state = self.state();
        let ended = state.subscriptions.remove(uri);
        let ended = state.release(ended);
        drop(state);
        drop(ended);
    }

    /// Whether it is subscribed to `uri`.
    pub(super) fn is_subscribed(&self, uri: &str) -> bool {
        self.state().subscriptions.contains_key(uri)
    }

    /// Whether the limit of subscriptions is reached.
    pub(super) fn is_full(&self) -> bool {
        self.state().subscriptions.len() >= MAX_SUBSCRIPTIONS
    }

    /// Stores `subscription` until the mailbox closes, or until too many newer ones push it out.
    pub(super) fn expect(&self, subscription: Subscription) {
        let mut state = self.state();
        if state.is_closed || !state.admit(&subscription) {
            return;
        }
        let over = state.expected.len() >= MAX_EXPECTED;
        let oldest = if over { state.expected.pop_front() } else { None };
        let oldest = state.release(oldest);
        state.expected.push_back(subscription);
        drop(state);
        drop(oldest);
    }

    /// The lowest level of log messages that the listener wants, if it set one.
    pub fn log_level(&self) -> Option<LogLevel> {
        self.state().log_level
    }

    /// Sets the lowest level of log messages for the listener.
    pub fn set_log_level(&self, level: LogLevel) {
        self.state().log_level = Some(level);
    }

    /// A receiver that changes when a notification was added.
    pub(super) fn arrivals(&self) -> watch::Receiver<()> {
        self.arrivals.subscribe()
    }

    /// Removes and returns the oldest pending notification. Returns one list that changed since the
    /// listener's version, and records the new version.
    pub(super) fn take(&self) -> Option<Notification> {
        self.state().take().map(|waiting| waiting.notice)
    }

    /// One of the lists it listens to that is not as it knows it; from now on it knows.
    pub(super) fn take_changed(&self, now: Revisions) -> Option<List> {
        let mut state = self.state();
        if state.waits > 0 && !self.has_listed.load(Ordering::Relaxed) {
            return None;
        }
        let changed = state.lists.iter().find(|list| state.told.of(*list) != now.of(*list))?;
        state.told.note(changed, now);
        Some(changed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscriptions::notification_router::{Board, Topic};
    use upstream::Home;

    fn notice(name: &str) -> Notification {
        Notification { method: name.into(), params: None }
    }

    #[test]
    fn what_is_about_the_same_is_told_once_with_the_newest() {
        let mailbox = Mailbox::of(&"a".into());
        mailbox.put(notice("1"), Some("a".into()));
        mailbox.put(notice("2"), Some("b".into()));
        mailbox.put(notice("3"), Some("a".into()));
        mailbox.put(notice("4"), None);
        mailbox.put(notice("5"), None);
        let told: Vec<String> =
            std::iter::from_fn(|| mailbox.take()).map(|notice| notice.method.to_string()).collect();
        assert_eq!(told, ["3", "2", "4", "5"]);
    }

    #[test]
    fn subscriptions_are_charged_until_they_end() {
        const LONG: usize = 8 * 1024;
        let (board, mailbox) = (Arc::new(Board::default()), Arc::new(Mailbox::of(&"a".into())));
        let subscription = |uri: &str| {
            board.tell(Topic::Resource("s".into(), uri.into()), uri, (&mailbox, &Home::session()))
        };
        let used = || mailbox.state().charge.bytes();
        let uris: Vec<String> = (0..MAX_SUBSCRIPTIONS).map(|number| format!("{number:0LONG$}")).collect();
        for uri in uris.iter().chain(&uris) {
            mailbox.subscribe(uri.clone(), subscription(uri)).expect("there is room");
        }
        assert!((3..4).contains(&(used() / LONG / MAX_SUBSCRIPTIONS)), "{}", used());
        mailbox.unsubscribe(&uris[0]);
        mailbox.unsubscribe("unknown");
        for _ in 0..2 * MAX_EXPECTED {
            mailbox.expect(subscription(&uris[0]));
        }
        mailbox.put(notice("1"), None);
        let counted = |state: &State| state.bytes + state.subscribed;
        assert_eq!(used(), counted(&mailbox.state()));
        mailbox.close();
        assert!(used() < 2 * EACH, "{}", used());
    }

    #[test]
    fn a_listener_that_never_reads_costs_a_bounded_amount() {
        let mailbox = Mailbox::of(&"a".into());
        for number in 0..2 * MAX_WAITING {
            mailbox.put(notice(&number.to_string()), None);
        }
        assert_eq!(mailbox.state().waiting.len(), MAX_WAITING);
        assert_eq!(mailbox.take(), Some(notice(&MAX_WAITING.to_string())), "the oldest went");
    }
}

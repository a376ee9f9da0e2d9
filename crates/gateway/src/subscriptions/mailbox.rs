//! What one listener asked to be told, and what waits for it: of a legacy session, or of one
//! `subscriptions/listen`.
//!
//! It outlives the streams it is read from, so nothing is lost between two of them and nothing is
//! told twice. Invariants: what waits is bounded, because updates of one resource are one; several
//! changes of one list are one. The memory budget is charged for what waits and for all subscriptions.

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

/// Notices that may wait; after that the oldest goes.
const MAX_WAITING: usize = 512;
/// Bytes of notices that may wait; after that the oldest goes.
const MAX_WAITING_BYTES: usize = 256 * 1024;
/// Bytes that a notice costs beside its text.
const EACH: usize = 256;
/// Resources that one listener may be subscribed to at a time.
pub(super) const MAX_SUBSCRIPTIONS: usize = 256;
/// Pages and tasks of one listener that are waited for at a time; after that the oldest goes.
const MAX_EXPECTED: usize = 64;

/// What a listener asked for and what waits for it.
#[derive(Debug)]
pub struct Mailbox {
    state: Mutex<State>,
    /// Whether it is still to be told why its server is down.
    owes_reason: AtomicBool,
    /// Changes when something was put in.
    arrivals: watch::Sender<()>,
    /// Whether the listener was given a list. Only then it is notified when the list changes.
    has_listed: AtomicBool,
}

#[derive(Debug)]
struct State {
    lists: Lists,
    told: Revisions,
    waiting: VecDeque<Waiting>,
    /// Bytes of what waits, charged to the listener.
    bytes: usize,
    /// Bytes of its subscriptions, charged to it as well.
    subscribed: usize,
    charge: Charge,
    log_level: Option<LogLevel>,
    /// By the URI it subscribed with.
    subscriptions: HashMap<String, Subscription>,
    /// Other things that it is told about when they happen.
    expected: VecDeque<Subscription>,
    /// How many connects find out now what the listener will see first.
    waits: usize,
    is_closed: bool,
}

/// Until it is dropped, a listener without a list is not notified of changes.
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
    /// What it is about; a later notice about the same takes its place.
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

    /// Charges what waits now; what finds no room goes, the newest first.
    fn count(&mut self) {
        self.bytes = self.waiting.iter().map(Waiting::size).sum();
        while self.charge.resize(self.bytes + self.subscribed).is_err() {
            let Some(newest) = self.waiting.pop_back() else { return };
            self.bytes -= newest.size();
            Limit::SessionNotices.met(());
        }
    }

    /// Charges one more subscription, if the memory budget has room for it.
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
    /// An empty one, for a listener of `principal`.
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

    /// Tells of changes of `lists` from now on, where `known` is what the listener knows.
    pub fn listen_to(&self, lists: Lists, known: Revisions) {
        let mut state = self.state();
        (state.lists, state.told) = (lists, known);
    }

    /// Whether it is still to be told why its server is down.
    pub fn owes_reason(&self) -> bool {
        self.owes_reason.load(Ordering::Relaxed)
    }

    /// Notes whether it is still to be told that.
    pub fn owe_reason(&self, owes: bool) {
        self.owes_reason.store(owes, Ordering::Relaxed);
    }

    /// Notes that the listener was given a list.
    pub fn note_listed(&self) {
        self.has_listed.store(true, Ordering::Relaxed);
    }

    /// Takes `known` for what the listener knows, unless it was given a list before.
    pub fn begin_with(&self, known: Revisions) {
        if !self.has_listed.load(Ordering::Relaxed) {
            self.state().told = known;
        }
    }

    /// Begins to find out what the listener will see first.
    pub fn wait(&self) -> Wait<'_> {
        self.state().waits += 1;
        Wait(self)
    }

    /// Puts a notice in. One that is about the same as one that waits replaces it.
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

    /// Ends everything it asked for, and takes nothing any more.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let ended = (std::mem::take(&mut state.subscriptions), std::mem::take(&mut state.expected));
        state.subscribed = 0;
        state.count();
        drop(state);
        drop(ended);
    }

    /// Keeps a subscription to `uri`; gives it back when there is no room for it, or nobody to keep
    /// it for.
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

    /// Whether it can be subscribed to nothing more.
    pub(super) fn is_full(&self) -> bool {
        self.state().subscriptions.len() >= MAX_SUBSCRIPTIONS
    }

    /// Keeps `subscription` until the mailbox closes or many others came.
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
        // Nothing panics while it is held, and every write leaves a valid state.
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

//! Subscriptions of one listener and its pending notifications. A listener is a legacy session or one
//! `subscriptions/listen`.
//!
//! The mailbox outlives the streams that read from it, so no notification is lost or repeated between
//! two streams. Invariants: several changes of one list become one notification. The memory budget is
//! charged for all subscriptions. Their number is bounded.
//!
//! Not here: the limits of pending notifications (`pending`).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::notification_router::Subscription;
use super::pending::PendingNotifications;
use crate::manager::Revisions;
use protocol::feature::{List, Lists};
use protocol::{LogLevel, Notification};
use runtime::telemetry::limit::Limit;

/// Resources that one listener may be subscribed to at a time.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 256;
/// Limit of pages and tasks that one listener waits for; beyond it the oldest is dropped.
const MAX_EXPECTED: usize = 64;

/// Subscriptions and pending notifications of one listener.
#[derive(Debug)]
pub struct Mailbox {
    state: Mutex<State>,
    pending: Arc<PendingNotifications>,
    /// Whether the listener must still be notified why its server is down.
    owes_down_notice: AtomicBool,
    /// Whether the listener has received a list. Only then is it notified when the list changes.
    has_listed: AtomicBool,
}

#[derive(Debug)]
struct State {
    lists: Lists,
    notified: Revisions,
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
        self.0.pending.wake();
    }
}

impl Mailbox {
    /// An empty mailbox for a listener of `principal`.
    pub fn of(principal: &Arc<str>) -> Self {
        let state = State {
            lists: Lists::default(),
            notified: Revisions::default(),
            log_level: None,
            subscriptions: HashMap::new(),
            expected: VecDeque::new(),
            waits: 0,
            is_closed: false,
        };
        Self {
            state: Mutex::new(state),
            pending: Arc::new(PendingNotifications::of(principal)),
            owes_down_notice: AtomicBool::default(),
            has_listed: AtomicBool::default(),
        }
    }

    /// Sends notifications of changes of `lists` from now on; `known` is the version that the listener
    /// has.
    pub(crate) fn listen_to(&self, lists: Lists, known: Revisions) {
        let mut state = self.state();
        (state.lists, state.notified) = (lists, known);
    }

    /// Whether the listener must still be notified why its server is down.
    pub(crate) fn owes_down_notice(&self) -> bool {
        self.owes_down_notice.load(Ordering::Relaxed)
    }

    /// Records whether the listener must still be notified why its server is down.
    pub(crate) fn set_owes_down_notice(&self, owes: bool) {
        self.owes_down_notice.store(owes, Ordering::Relaxed);
    }

    /// Records that the listener has received a list.
    pub(crate) fn note_listed(&self) {
        self.has_listed.store(true, Ordering::Relaxed);
    }

    /// Sets `known` as the versions that the listener has, unless it has received a list before.
    pub(crate) fn begin_with(&self, known: Revisions) {
        if !self.has_listed.load(Ordering::Relaxed) {
            self.state().notified = known;
        }
    }

    /// Marks that the first lists of the listener are being found.
    pub fn wait(&self) -> Wait<'_> {
        self.state().waits += 1;
        Wait(self)
    }

    /// Adds a notification. It replaces a pending one with the same subject.
    pub fn put(&self, notice: Notification, about: Option<String>) {
        self.pending.put(notice, about);
    }

    /// The pending notifications, which end with the mailbox.
    pub(crate) const fn pending(&self) -> &Arc<PendingNotifications> {
        &self.pending
    }

    /// Ends all subscriptions; later notifications are dropped.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let ended = (std::mem::take(&mut state.subscriptions), std::mem::take(&mut state.expected));
        self.pending.release_all();
        drop(state);
        drop(ended);
    }

    /// Stores a subscription to `uri`. Returns it if there is no room, or if the mailbox is closed.
    pub(crate) fn subscribe(&self, uri: String, subscription: Subscription) -> Result<(), Subscription> {
        let mut state = self.state();
        let has_room = state.subscriptions.len() < MAX_SUBSCRIPTIONS;
        if state.is_closed {
            return Err(subscription);
        }
        if !has_room && !state.subscriptions.contains_key(&uri) {
            return Err(Limit::Subscriptions.met(subscription));
        }
        if !self.pending.admit(subscription.size()) {
            return Err(Limit::Subscriptions.met(subscription));
        }
        let before = state.subscriptions.insert(uri, subscription);
        self.release(before.as_ref());
        drop(state);
        drop(before);
        Ok(())
    }

    /// Ends the subscription to `uri`.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        let mut state = self.state();
        let ended = state.subscriptions.remove(uri);
        self.release(ended.as_ref());
        drop(state);
        drop(ended);
    }

    /// Ends the subscriptions whose topics `is_seen` does not know any longer.
    pub(crate) fn keep_seen(&self, is_seen: impl Fn(&super::Topic) -> bool) {
        let mut state = self.state();
        let uris: Vec<String> = state.subscriptions.keys().cloned().collect();
        let mut ended = Vec::new();
        for uri in uris {
            if !is_seen(state.subscriptions[&uri].topic()) {
                let subscription = state.subscriptions.remove(&uri);
                self.release(subscription.as_ref());
                ended.extend(subscription);
            }
        }
        drop(state);
        drop(ended);
    }

    /// Whether it is subscribed to `uri`.
    pub(crate) fn is_subscribed(&self, uri: &str) -> bool {
        self.state().subscriptions.contains_key(uri)
    }

    /// Whether the limit of subscriptions is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.state().subscriptions.len() >= MAX_SUBSCRIPTIONS
    }

    /// Stores `subscription` until the mailbox closes, or until too many newer ones push it out.
    pub(crate) fn expect(&self, subscription: Subscription) {
        let mut state = self.state();
        if state.is_closed || !self.pending.admit(subscription.size()) {
            return;
        }
        let over = state.expected.len() >= MAX_EXPECTED;
        let oldest = if over { state.expected.pop_front() } else { None };
        self.release(oldest.as_ref());
        state.expected.push_back(subscription);
        drop(state);
        drop(oldest);
    }

    /// The lowest level of log messages that the listener wants, if it set one.
    pub fn log_level(&self) -> Option<LogLevel> {
        self.state().log_level
    }

    /// Sets the lowest level of log messages for the listener.
    pub(crate) fn set_log_level(&self, level: LogLevel) {
        self.state().log_level = Some(level);
    }

    /// Removes and returns the oldest pending notification.
    pub(crate) fn take(&self) -> Option<Notification> {
        self.pending.take()
    }

    /// Returns one list that changed since the listener's version, and records the new version.
    pub(crate) fn take_changed(&self, now: Revisions) -> Option<List> {
        let mut state = self.state();
        if state.waits > 0 && !self.has_listed.load(Ordering::Relaxed) {
            return None;
        }
        let changed = state.lists.iter().find(|list| state.notified.of(*list) != now.of(*list))?;
        state.notified.record(changed, now);
        Some(changed)
    }

    /// Releases the charge of a subscription that ended.
    fn release(&self, ended: Option<&Subscription>) {
        self.pending.release(ended.map_or(0, Subscription::size));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notifications::{NotificationRouter, Topic};
    use upstream::Affinity;

    fn notice(name: &str) -> Notification {
        Notification { method: name.into(), params: None }
    }

    #[test]
    fn subscriptions_are_charged_until_they_end() {
        const LONG: usize = 8 * 1024;
        let (router, mailbox) = (Arc::new(NotificationRouter::default()), Arc::new(Mailbox::of(&"a".into())));
        let subscription = |uri: &str| {
            router.subscribe(
                Topic::Resource("s".into(), uri.into()),
                uri,
                (mailbox.pending(), &Affinity::session()),
            )
        };
        let used = || mailbox.pending().charged().0;
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
        let (charged, counted) = mailbox.pending().charged();
        assert_eq!(charged, counted);
        mailbox.close();
        assert!(used() < LONG / 8, "only the notification is left: {}", used());
    }
}

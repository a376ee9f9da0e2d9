//! Routes notifications of servers to their subscribers.
//!
//! Invariants: a notification reaches exactly the listeners that subscribed to its subject, under the URI of
//! their subscription. A listener that is gone leaves nothing behind. One task delivers notifications and never
//! waits for a listener.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::json;
use tokio::sync::broadcast::{self, error::RecvError};

use super::pending::PendingNotifications;
use crate::manager::ServerNotice;
use json::Raw;
use protocol::{Notification, elicitation, meta, method, uri};
use runtime::telemetry::pace::Pace;
use upstream::{Affinity, Watching};

/// Limit of parent URIs that are searched for subscriptions.
const MAX_ANCESTORS: usize = 64;

/// Overhead of a subscription in bytes, beside its names.
const EACH: usize = 512;

/// The subject of a notification.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// A resource of a server, by its URI there.
    Resource(Arc<str>, Arc<str>),
    /// A task of a server, by its id there.
    Task(Arc<str>, Arc<str>),
    /// A page to which a server sent a user, by its id there.
    Elicitation(Arc<str>, Arc<str>),
}

impl Topic {
    /// The URI or id on the server.
    fn name(&self) -> &str {
        let (Self::Resource(_, name) | Self::Task(_, name) | Self::Elicitation(_, name)) = self;
        name
    }

    /// The server, if the subject is a resource.
    const fn resource_of(&self) -> Option<&Arc<str>> {
        if let Self::Resource(server, _) = self { Some(server) } else { None }
    }

    /// The server, if the subject is a task.
    const fn task_of(&self) -> Option<&Arc<str>> {
        if let Self::Task(server, _) = self { Some(server) } else { None }
    }
}

/// All subscriptions.
#[derive(Debug, Default)]
pub struct NotificationRouter {
    index: Mutex<HashMap<Topic, Vec<Listener>>>,
    numbers: AtomicU64,
}

#[derive(Debug, Clone)]
struct Listener {
    number: u64,
    pending: Weak<PendingNotifications>,
    /// The client. Notifications from the private connection of another client are not for it.
    affinity: Affinity,
    /// The client's URI or id of the subject.
    shown: Arc<str>,
}

/// One listener's subscription to one subject; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    router: Arc<NotificationRouter>,
    topic: Topic,
    number: u64,
    /// Its size in bytes.
    size: usize,
    /// Keeps the subscription at the server.
    watching: Option<Watching>,
}

impl Subscription {
    /// Its size in bytes, here and in the mailbox.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Its topic.
    pub(super) const fn topic(&self) -> &Topic {
        &self.topic
    }

    /// Adds the subscription at the server, which lasts as long as this one.
    pub(crate) fn kept_by(mut self, watching: Watching) -> Self {
        self.watching = Some(watching);
        self
    }
}

impl NotificationRouter {
    /// Subscribes the listener of `pending` to `topic`, which its client calls `shown`. The client is that of `affinity`.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        topic: Topic,
        shown: &str,
        (pending, affinity): (&Arc<PendingNotifications>, &Affinity),
    ) -> Subscription {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        // The mailbox stores `shown` too, as its key.
        let size = EACH + topic.name().len() + 2 * shown.len();
        let (pending, affinity) = (Arc::downgrade(pending), affinity.clone());
        let listener = Listener { number, pending, affinity, shown: shown.into() };
        self.lock().entry(topic.clone()).or_default().push(listener);
        Subscription { router: Arc::clone(self), topic, number, size, watching: None }
    }

    /// Delivers notifications of servers until they are gone.
    pub(crate) async fn run(self: Arc<Self>, mut notices: broadcast::Receiver<ServerNotice>) {
        let pace = Pace::new();
        loop {
            match notices.recv().await {
                Ok(ServerNotice { server, notice: Some(notice), affinity }) => {
                    self.deliver((&server, affinity.as_ref()), &notice);
                }
                Ok(ServerNotice { server, notice: None, affinity }) => {
                    self.missed(Some(&server), affinity.as_ref());
                }
                Err(RecvError::Lagged(count)) => {
                    if let Some(suppressed) = pace.admit() {
                        tracing::warn!(
                            count,
                            suppressed,
                            "notices of servers came too fast; what they are about counts as changed"
                        );
                    }
                    self.missed(None, None);
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// The number of listeners, counted for each subject.
    pub fn count(&self) -> usize {
        self.lock().values().map(Vec::len).sum()
    }

    /// Delivers a notification of `server`; `affinity` is the client, if it came on a private connection.
    fn deliver(&self, (server, affinity): (&Arc<str>, Option<&Affinity>), notice: &Notification) {
        let is_meant = |listener: &Listener| affinity.is_none_or(|affinity| listener.affinity == *affinity);
        let named = |member| notice.params.as_ref().and_then(|params| params.get_as::<String>(member));
        match notice.method.as_str() {
            method::RESOURCE_UPDATED => {
                let Some(uri) = named("uri") else { return };
                let listeners = self.listeners_of(server, &uri).into_iter();
                for (listener, shown) in listeners.filter(|(listener, _)| is_meant(listener)) {
                    put(&listener, notice, "uri", &shown);
                }
            }
            method::TASK_STATUS | method::TASKS => {
                let Some(id) =
                    named("taskId").filter(|_| notice.params.as_ref().is_none_or(elicitation::are_safe))
                else {
                    return;
                };
                let listeners = self.listeners(&Topic::Task(server.clone(), id.into()));
                for listener in listeners.into_iter().filter(is_meant) {
                    put(&listener, notice, "taskId", &listener.shown);
                }
            }
            method::ELICITATION_COMPLETE => {
                let Some(id) = named("elicitationId") else { return };
                let listeners = self.listeners(&Topic::Elicitation(server.clone(), id.into()));
                for listener in listeners.into_iter().filter(is_meant) {
                    put(&listener, notice, "elicitationId", &listener.shown);
                }
            }
            _ => {}
        }
    }

    /// Returns the listeners of `uri`, each with its own URI. A server may name a part of a subscribed resource
    /// (2026-07-28, `ResourceUpdatedNotificationParams`). If no listener subscribed to the part itself, the
    /// listeners of the nearest parent are notified.
    fn listeners_of(&self, server: &Arc<str>, uri: &str) -> Vec<(Listener, Arc<str>)> {
        let exact = self.listeners(&Topic::Resource(server.clone(), uri.into()));
        if !exact.is_empty() {
            return exact.into_iter().map(|listener| (listener.clone(), listener.shown)).collect();
        }
        for whole in ancestors(uri).take(MAX_ANCESTORS) {
            let listeners = self.listeners(&Topic::Resource(server.clone(), whole.into()));
            if !listeners.is_empty() {
                let part = |listener: Listener| {
                    let is_bare = listener.shown.as_ref() == whole;
                    let shown = if is_bare { uri.to_owned() } else { uri::with_owner(uri, server) };
                    (listener, shown.into())
                };
                return listeners.into_iter().map(part).collect();
            }
        }
        Vec::new()
    }

    /// Acts as if `server` had sent every possible notification to `affinity`; none means every server and every
    /// client.
    fn missed(&self, server: Option<&Arc<str>>, affinity: Option<&Affinity>) {
        let is_meant = |of: &Arc<str>| server.is_none_or(|server| server == of);
        let meant = |is_one: fn(&Topic) -> Option<&Arc<str>>| -> Vec<Listener> {
            let index = self.lock();
            let meant = index.iter().filter(|(topic, _)| is_one(topic).is_some_and(is_meant));
            let listeners = meant.flat_map(|(_, listeners)| listeners.iter());
            listeners
                .filter(|listener| affinity.is_none_or(|affinity| listener.affinity == *affinity))
                .cloned()
                .collect()
        };
        for listener in meant(Topic::resource_of) {
            let params = Some(Raw::of(&json!({ "uri": listener.shown })));
            let notice = Notification { method: method::RESOURCE_UPDATED.into(), params };
            put(&listener, &notice, "uri", &listener.shown);
        }
        for listener in meant(Topic::task_of) {
            put(&listener, &missed_task(&listener.shown), "taskId", &listener.shown);
        }
    }

    fn listeners(&self, topic: &Topic) -> Vec<Listener> {
        self.lock().get(topic).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, Vec<Listener>>> {
        // No code panics while it holds the lock, and every write leaves a valid state.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut index = self.router.lock();
        let Some(listeners) = index.get_mut(&self.topic) else { return };
        listeners.retain(|listener| listener.number != self.number);
        if listeners.is_empty() {
            index.remove(&self.topic);
        }
    }
}

/// A notification for a task `id` whose notifications may have been missed.
fn missed_task(id: &str) -> Notification {
    let params = Some(Raw::empty_object().with("taskId", &Raw::of(id)));
    Notification { method: method::TASKS.into(), params }
}

/// Adds `notice` to the pending ones of a listener, with the listener's name of the subject.
fn put(listener: &Listener, notice: &Notification, member: &str, shown: &str) {
    let Some(pending) = listener.pending.upgrade() else { return };
    let params = notice.params.clone().unwrap_or_else(Raw::empty_object);
    let meta = meta::of(Some(&params)).map(|meta| meta.edit(&[(meta::SUBSCRIPTION_ID, None)]));
    // The id of Switchyard's own stream is not passed on.
    let meta = meta.filter(|meta| meta.bytes().as_ref() != b"{}");
    let is_same = params.get_as::<String>(member).is_some_and(|there| there == shown);
    let renamed = Raw::of(shown);
    let mut changes = Vec::with_capacity(2);
    if params.get("_meta").is_some() {
        changes.push(("_meta", meta.as_ref()));
    }
    if !is_same {
        changes.push((member, Some(&renamed)));
    }
    let params = if changes.is_empty() { params } else { params.edit(&changes) };
    let about = format!("{} {shown}", notice.method);
    pending.put(Notification { method: notice.method.clone(), params: Some(params) }, Some(about));
}

/// The parents of `uri`, nearest first.
fn ancestors(uri: &str) -> impl Iterator<Item = &str> {
    let ends = uri.char_indices().rev().filter(|(_, c)| matches!(c, '/' | '?' | '#'));
    // With and without the final slash: both spellings are in use.
    ends.flat_map(|(at, _)| [&uri[..=at], &uri[..at]]).filter(move |whole| !whole.is_empty() && *whole != uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_known_by_the_nearest_whole() {
        let all: Vec<&str> = ancestors("a://b/c?d").collect();
        assert_eq!(all, ["a://b/c?", "a://b/c", "a://b/", "a://b", "a://", "a:/", "a:/", "a:"]);
    }
}

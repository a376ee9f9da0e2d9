//! The subscriptions of all clients to one server, counted: each resource or task once, however many clients watch it.
//!
//! Invariants: Switchyard subscribes to a subject when the first client wants it, and all waiting clients share the
//! answer. It unsubscribes when the last [`Watching`] is dropped. A refused subject is removed, so the next client
//! causes another request. At most [`MAX_SUBJECTS`] of [`MAX_BYTES`] are watched at a time. A principal can add a subject
//! while it holds fewer than are free, and fewer bytes. One principal therefore holds at most half of them, and a
//! principal that holds none finds room for a short one.
//!
//! Not here: how Switchyard subscribes (`subscription_task`), which clients are notified (`gateway`).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::error::Error;
use json::Raw;
use protocol::ErrorObject;
use runtime::telemetry::limit::Limit;

/// The most subjects of one server that are watched at a time.
const MAX_SUBJECTS: usize = 4_096;
/// The most bytes of their URIs and ids. A modern server is sent all of them for each change.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// A part of a server whose changes a client can watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A resource, by its URI at the server.
    Resource(Arc<str>),
    /// A task, by its id at the server.
    Task(Arc<str>),
}

/// The reason why a server does not report changes of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchRefusal {
    /// The server refused with this error.
    Refused(ErrorObject),
    /// The server acknowledged the subscription without this subject (2026-07-28).
    LeftOut,
}

/// The server's answer to the subscription, or the failure.
pub(super) type WatchOutcome = Result<Result<Raw, WatchRefusal>, Error>;

/// Waits for the outcome, which may already be there.
pub(super) type Awaited = watch::Receiver<Option<WatchOutcome>>;

/// All watched subjects of one server.
pub(super) struct Watches {
    table: Mutex<HashMap<Subject, DesiredWatch>>,
    changed: watch::Sender<()>,
}

struct DesiredWatch {
    /// The principal of each [`Watching`]. The subject counts for the first one.
    holders: Vec<Arc<str>>,
    /// Also distinguishes an entry from a later one for the same subject.
    outcome: Arc<watch::Sender<Option<WatchOutcome>>>,
}

/// One client's subscription. Dropping it ends the subscription.
pub struct Watching {
    watches: Arc<Watches>,
    subject: Subject,
    principal: Arc<str>,
    outcome: Arc<watch::Sender<Option<WatchOutcome>>>,
}

impl Watches {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), changed: watch::Sender::new(()) })
    }

    /// Adds a subscription of `principal` to `subject`. `None` if the principal has used its share.
    pub(super) fn add(
        self: &Arc<Self>,
        principal: &Arc<str>,
        subject: Subject,
    ) -> Option<(Watching, Awaited)> {
        let outcome = {
            let mut table = self.lock();
            if !table.contains_key(&subject) && !has_room(&table, principal, &subject) {
                return Limit::Watches.met(None);
            }
            let desired = table.entry(subject.clone()).or_insert_with(DesiredWatch::new);
            desired.holders.push(Arc::clone(principal));
            Arc::clone(&desired.outcome)
        };
        self.changed.send_replace(());
        let awaited = outcome.subscribe();
        let principal = Arc::clone(principal);
        Some((Watching { watches: Arc::clone(self), subject, principal, outcome }, awaited))
    }

    /// The desired subjects, and whether the server has already accepted each.
    pub(super) fn desired(&self) -> HashMap<Subject, bool> {
        let table = self.lock();
        table.iter().map(|(subject, desired)| (subject.clone(), desired.outcome.borrow().is_some())).collect()
    }

    /// Sends the outcome to all waiting clients. A refused subject is removed.
    pub(super) fn settle(&self, subject: &Subject, outcome: WatchOutcome) {
        let mut table = self.lock();
        let waiting = match &outcome {
            Ok(Ok(_)) => table.get(subject).map(|desired| Arc::clone(&desired.outcome)),
            _ => table.remove(subject).map(|desired| desired.outcome),
        };
        drop(table);
        if let Some(waiting) = waiting {
            waiting.send_replace(Some(outcome));
        }
    }

    /// Changes when the desired subjects change.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The number of desired subjects.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, DesiredWatch>> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subject {
    fn len(&self) -> usize {
        let (Self::Resource(name) | Self::Task(name)) = self;
        name.len()
    }
}

/// Whether `principal` may add `subject`: it holds fewer than are free, and as many bytes at most.
fn has_room(table: &HashMap<Subject, DesiredWatch>, principal: &Arc<str>, subject: &Subject) -> bool {
    let (mut own, mut own_bytes, mut bytes) = (0, 0, subject.len());
    for (held, desired) in table {
        bytes += held.len();
        if desired.holders.first() == Some(principal) {
            own += 1;
            own_bytes += held.len();
        }
    }
    own < MAX_SUBJECTS.saturating_sub(table.len()) && own_bytes.saturating_add(bytes) <= MAX_BYTES
}

impl DesiredWatch {
    fn new() -> Self {
        Self { holders: Vec::new(), outcome: Arc::new(watch::Sender::new(None)) }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut table = self.watches.lock();
        let Some(desired) = table.get_mut(&self.subject) else { return };
        // A refused entry is removed, and the current one belongs to other clients.
        if !Arc::ptr_eq(&desired.outcome, &self.outcome) {
            return;
        }
        if let Some(at) = desired.holders.iter().position(|holder| *holder == self.principal) {
            desired.holders.swap_remove(at);
        }
        if desired.holders.is_empty() {
            table.remove(&self.subject);
            drop(table);
            self.watches.changed.send_replace(());
        }
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watching({:?})", self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(uri: &str) -> Subject {
        Subject::Resource(uri.into())
    }

    fn add(watches: &Arc<Watches>, principal: &str, uri: &str) -> Option<(Watching, Awaited)> {
        watches.add(&principal.into(), subject(uri))
    }

    #[test]
    fn a_subject_is_wanted_until_the_last_one_leaves() {
        let watches = Watches::new();
        let (one, _) = add(&watches, "key:a", "a:1").expect("room");
        let (two, _) = add(&watches, "key:a", "a:1").expect("room");
        watches.settle(&subject("a:1"), Ok(Ok(Raw::empty_object())));
        drop(one);
        assert_eq!(watches.desired().get(&subject("a:1")), Some(&true));
        drop(two);
        assert_eq!(watches.count(), 0);
    }

    #[test]
    fn a_refusal_is_everybodys_who_waits_and_of_nobody_after() {
        let watches = Watches::new();
        let (early, first) = add(&watches, "key:a", "a:1").expect("room");
        let (_too, second) = add(&watches, "key:a", "a:1").expect("room");
        watches.settle(&subject("a:1"), Ok(Err(WatchRefusal::LeftOut)));
        assert!(matches!(*first.borrow(), Some(Ok(Err(_)))) && matches!(*second.borrow(), Some(Ok(Err(_)))));
        let (_late, third) = add(&watches, "key:a", "a:1").expect("room");
        assert!(third.borrow().is_none(), "asked for anew");
        drop(early);
        assert_eq!(watches.desired().get(&subject("a:1")), Some(&false), "the late one still wants it");
    }

    #[test]
    fn one_principal_takes_at_most_half_and_leaves_room_for_others() {
        let watches = Watches::new();
        let take = |principal: &str, prefix: &str| -> Vec<_> {
            (0..MAX_SUBJECTS).map_while(|n| add(&watches, principal, &format!("{prefix}:{n}"))).collect()
        };
        let (greedy, second) = (take("key:greedy", "a"), take("key:second", "b"));
        eprintln!("one principal holds {} subjects, the next {}", greedy.len(), second.len());
        assert_eq!((greedy.len(), second.len()), (MAX_SUBJECTS / 2, MAX_SUBJECTS / 4));
        assert!(add(&watches, "key:greedy", "b:0").is_some(), "a subject that is watched costs nothing more");
        assert!(add(&watches, "key:third", "c:0").is_some(), "another principal finds room");
        drop(greedy);
        assert!(add(&watches, "key:greedy", "c:1").is_some());
        drop(second);
        assert_eq!(watches.count(), 0);
    }

    #[test]
    fn long_subjects_have_a_bound_in_bytes() {
        let watches = Watches::new();
        let long = |name: &str, n: usize| format!("{name}:{n:04}{}", "x".repeat(8_000));
        let take = |principal: &str| -> Vec<_> {
            (0..MAX_SUBJECTS).map_while(|n| add(&watches, principal, &long(principal, n))).collect()
        };
        let (greedy, second) = (take("key:greedy"), take("key:second"));
        assert!((120..=131).contains(&greedy.len()), "{}", greedy.len());
        assert!((60..=65).contains(&second.len()), "{}", second.len());
        assert!(add(&watches, "key:third", "c:0").is_some(), "another principal finds room");
        drop((greedy, second));
    }

    #[test]
    fn a_shared_subject_counts_for_a_principal_that_still_holds_it() {
        let watches = Watches::new();
        let (first, _) = add(&watches, "key:a", "a:1").expect("room");
        let (second, _) = add(&watches, "key:b", "a:1").expect("room");
        drop(first);
        assert_eq!(watches.lock()[&subject("a:1")].holders, [Arc::<str>::from("key:b")]);
        drop(second);
        assert_eq!(watches.count(), 0);
    }
}

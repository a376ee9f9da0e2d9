//! What clients want to be told of one server, counted: each resource or task once, however many
//! want it.
//!
//! Invariants: the server is asked for a subject when the first one wants it, and the answer is
//! everybody's who waits for it; it is asked to stop when the last [`Watching`] is dropped; a
//! subject that was refused is forgotten, so the next one who wants it has it asked for again; at
//! most [`MAX_SUBJECTS`] at a time.
//!
//! Not here: how a server is asked (`carrier`), who is told (`gateway`).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::error::Error;
use crate::protocol::{ErrorObject, Raw};
use crate::telemetry::limit::Limit;

/// Subjects of one server that may be watched at a time.
const MAX_SUBJECTS: usize = 4_096;

/// Something of a server that a client can ask to be told about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A resource, by its URI at the server.
    Resource(Arc<str>),
    /// A task, by its id at the server.
    Task(Arc<str>),
}

/// Why a server does not tell of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It said so, in these words.
    Said(ErrorObject),
    /// It acknowledged that it was asked, and left this out (2026-07-28).
    LeftOut,
}

/// The server's answer to the request to be told, or why there is none.
pub(super) type Outcome = Result<Result<Raw, Refusal>, Error>;

/// Waits for the outcome; it may be there already.
pub(super) type Awaited = watch::Receiver<Option<Outcome>>;

/// All that is wanted of one server.
pub(super) struct Watches {
    table: Mutex<HashMap<Subject, Wanted>>,
    changed: watch::Sender<()>,
}

struct Wanted {
    count: usize,
    /// Also what tells an entry from a later one of the same subject.
    outcome: Arc<watch::Sender<Option<Outcome>>>,
}

/// One client's wish to be told. Dropping it ends the wish.
pub struct Watching {
    watches: Arc<Watches>,
    subject: Subject,
    outcome: Arc<watch::Sender<Option<Outcome>>>,
}

impl Watches {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), changed: watch::Sender::new(()) })
    }

    /// One more wants `subject`; none when too many are wanted already.
    pub(super) fn add(self: &Arc<Self>, subject: Subject) -> Option<(Watching, Awaited)> {
        let outcome = {
            let mut table = self.lock();
            if table.len() >= MAX_SUBJECTS && !table.contains_key(&subject) {
                return Limit::Watches.met(None);
            }
            let wanted = table.entry(subject.clone()).or_insert_with(Wanted::new);
            wanted.count += 1;
            Arc::clone(&wanted.outcome)
        };
        self.changed.send_replace(());
        let awaited = outcome.subscribe();
        Some((Watching { watches: Arc::clone(self), subject, outcome }, awaited))
    }

    /// What is wanted now, and whether the server has agreed to it before.
    pub(super) fn wanted(&self) -> HashMap<Subject, bool> {
        let table = self.lock();
        table.iter().map(|(subject, wanted)| (subject.clone(), wanted.outcome.borrow().is_some())).collect()
    }

    /// Gives the outcome to those who wait for it. What was refused is not wanted any more.
    pub(super) fn settle(&self, subject: &Subject, outcome: Outcome) {
        let mut table = self.lock();
        let waiting = match &outcome {
            Ok(Ok(_)) => table.get(subject).map(|wanted| Arc::clone(&wanted.outcome)),
            _ => table.remove(subject).map(|wanted| wanted.outcome),
        };
        drop(table);
        if let Some(waiting) = waiting {
            waiting.send_replace(Some(outcome));
        }
    }

    /// Changes when something else is wanted than before.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// How many subjects are wanted.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, Wanted>> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wanted {
    fn new() -> Self {
        Self { count: 0, outcome: Arc::new(watch::Sender::new(None)) }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut table = self.watches.lock();
        let Some(wanted) = table.get_mut(&self.subject) else { return };
        // One that was refused is forgotten, and what stands there now is somebody else's.
        if !Arc::ptr_eq(&wanted.outcome, &self.outcome) {
            return;
        }
        wanted.count -= 1;
        if wanted.count == 0 {
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

    #[test]
    fn a_subject_is_wanted_until_the_last_one_leaves() {
        let watches = Watches::new();
        let (one, _) = watches.add(subject("a:1")).expect("room");
        let (two, _) = watches.add(subject("a:1")).expect("room");
        watches.settle(&subject("a:1"), Ok(Ok(Raw::empty_object())));
        drop(one);
        assert_eq!(watches.wanted().get(&subject("a:1")), Some(&true));
        drop(two);
        assert_eq!(watches.count(), 0);
    }

    #[test]
    fn a_refusal_is_everybodys_who_waits_and_of_nobody_after() {
        let watches = Watches::new();
        let (early, first) = watches.add(subject("a:1")).expect("room");
        let (_too, second) = watches.add(subject("a:1")).expect("room");
        watches.settle(&subject("a:1"), Ok(Err(Refusal::LeftOut)));
        assert!(matches!(*first.borrow(), Some(Ok(Err(_)))) && matches!(*second.borrow(), Some(Ok(Err(_)))));
        let (_late, third) = watches.add(subject("a:1")).expect("room");
        assert!(third.borrow().is_none(), "asked for anew");
        drop(early);
        assert_eq!(watches.wanted().get(&subject("a:1")), Some(&false), "the late one still wants it");
    }

    #[test]
    fn there_is_a_limit() {
        let watches = Watches::new();
        let held: Vec<_> = (0..MAX_SUBJECTS).map(|n| watches.add(subject(&format!("a:{n}")))).collect();
        assert!(watches.add(subject("a:more")).is_none());
        assert!(watches.add(subject("a:0")).is_some(), "one that is watched costs nothing more");
        drop(held);
        assert_eq!(watches.count(), 0);
    }
}

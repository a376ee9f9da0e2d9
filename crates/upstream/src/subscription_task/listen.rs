//! Notifications of a modern server: one `subscriptions/listen` stream, which is kept open.
//!
//! One stream carries all subscriptions. If they change, the new stream is acknowledged before the old one
//! ends, so there is no gap. A stream that ends is opened again after a pause, until the server refuses it.
//! Changes of a large request are collected, because each of them sends all of it again.
//!
//! Source: 2026-07-28 `basic/patterns/subscriptions`.

use std::collections::{BTreeSet, HashMap};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep_until};

use super::SubscriptionTask;
use crate::connection::{Call, CallEvent, Connection, EventReceiver, EventSender};
use crate::error::Error;
use crate::watches::{Subject, WatchRefusal};
use json::Raw;
use protocol::feature::{List, Lists};
use protocol::lifecycle::{Peer, TASKS_EXTENSION};
use protocol::{Notification, Reply, method};

/// Pause before the first attempt to open the stream again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A stream that sends nothing for this time counts as acknowledged.
const ACKNOWLEDGED_AFTER: Duration = Duration::from_secs(3);

/// Returns the lists whose changes the server announces.
pub(super) fn announced(peer: &Peer) -> Lists {
    let announces = |list: &List| {
        let declared = peer.capabilities.get(list.capability());
        declared.and_then(|declared| declared.get_as("listChanged")).unwrap_or(false)
    };
    List::ALL.into_iter().filter(announces).collect()
}

/// Larger requests are paced, in bytes.
const LARGE: usize = 64 * 1024;
/// Bytes of requests per second, if they are large.
const RATE: f64 = 1024.0 * 1024.0;

/// Keeps the stream of one connection open.
pub(super) struct Listening<'a> {
    subscription_task: &'a SubscriptionTask,
    connection: &'a Arc<dyn Connection>,
    lists: Lists,
    /// The stream that is read.
    current: Option<ListenStream>,
    /// The stream that replaces it and is not acknowledged yet.
    next: Option<ListenStream>,
    pauses: ReopenPauses,
    reopen_at: Option<Instant>,
    /// No other request is sent before, because the last one was large.
    not_before: Option<Instant>,
    /// The server refused the stream. It is tried again when the subscriptions change.
    is_refused: bool,
    /// No stream was open for a while.
    was_away: bool,
}

struct ListenStream {
    requested: BTreeSet<Subject>,
    honoured: BTreeSet<Subject>,
    started: Instant,
    answer: BoxFuture<'static, Result<Reply, Error>>,
    receiver: EventReceiver,
}

impl<'a> Listening<'a> {
    pub(super) fn new(subscription_task: &'a SubscriptionTask, connection: &'a Arc<dyn Connection>) -> Self {
        Self {
            subscription_task,
            connection,
            lists: announced(connection.peer()),
            current: None,
            next: None,
            pauses: ReopenPauses::new(),
            reopen_at: None,
            not_before: None,
            is_refused: false,
            // The lists of a new connection are read anyway. The server may have sent notifications of
            // earlier subscriptions while no stream was open.
            was_away: subscription_task.watches.desired().values().any(|agreed| *agreed),
        }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) {
        let mut changes = self.subscription_task.watches.changes();
        loop {
            changes.mark_unchanged();
            self.open_if_wanted();
            tokio::select! {
                Ok(()) = changes.changed() => self.is_refused = false,
                answer = acknowledged(&mut self.next) => match answer {
                    Ok(honoured) => self.take_over(honoured),
                    Err(end) => self.refused(end),
                },
                end = ended(&mut self.current) => self.lost(&end),
                () = sleep_until(self.reopen_at.unwrap_or_else(Instant::now)), if self.reopen_at.is_some() => {
                    self.reopen_at = None;
                }
            }
        }
    }

    fn open_if_wanted(&mut self) {
        let desired = self.subscription_task.watches.desired();
        self.settle_known(&desired);
        let requested: BTreeSet<Subject> = desired.into_keys().collect();
        if self.next.is_some() || self.reopen_at.is_some() || self.is_refused {
            return;
        }
        if requested.is_empty() && self.lists.is_none() {
            self.current = None;
        } else if self.current.as_ref().is_none_or(|current| current.requested != requested) {
            if self.not_before.is_some_and(|at| Instant::now() < at) {
                self.reopen_at = self.not_before;
                return;
            }
            let call = call(self.lists, &requested);
            self.not_before = Some(Instant::now() + pace(&call));
            self.next = Some(ListenStream::open(self.connection, call, requested));
        }
    }

    /// Confirms new subscriptions that the current stream already covers.
    fn settle_known(&self, desired: &HashMap<Subject, bool>) {
        let Some(current) = &self.current else { return };
        for (subject, _) in
            desired.iter().filter(|(subject, agreed)| !**agreed && current.honoured.contains(*subject))
        {
            self.subscription_task.watches.settle(subject, Ok(Ok(Raw::empty_object())));
        }
    }

    fn take_over(&mut self, honoured: BTreeSet<Subject>) {
        let Some(mut stream) = self.next.take() else { return };
        for (subject, agreed) in self.subscription_task.watches.desired() {
            if stream.requested.contains(&subject) {
                let is_honoured = honoured.contains(&subject);
                let reply = if is_honoured { Ok(Raw::empty_object()) } else { Err(WatchRefusal::LeftOut) };
                self.subscription_task.conclude(&subject, agreed, Ok(reply));
            }
        }
        if std::mem::take(&mut self.was_away) {
            self.subscription_task.missed();
        }
        stream.honoured = honoured;
        self.current = Some(stream);
    }

    /// Handles a new stream that ended before it was acknowledged.
    fn refused(&mut self, end: Result<Reply, Error>) {
        let Some(stream) = self.next.take() else { return };
        let is_refusal = is_refusal(&end);
        let outcome = match end {
            Ok(Ok(_)) => Err(Error::Cut { reason: "the server ended the stream of notices".into() }),
            Ok(Err(refusal)) => Ok(Err(WatchRefusal::Refused(refusal))),
            Err(failure) => Err(failure),
        };
        let desired = self.subscription_task.watches.desired();
        let fresh =
            desired.iter().filter(|(subject, agreed)| !**agreed && stream.requested.contains(*subject));
        let mut had_fresh = false;
        for (subject, _) in fresh {
            had_fresh = true;
            self.subscription_task.watches.settle(subject, outcome.clone());
        }
        // A task that the server no longer knows must not end all other subscriptions.
        let tasks = || stream.requested.iter().filter(|subject| matches!(subject, Subject::Task(_)));
        if is_refusal && !had_fresh && tasks().next().is_some() {
            tasks().for_each(|task| self.subscription_task.watches.settle(task, outcome.clone()));
        } else if is_refusal && !had_fresh {
            tracing::debug!(outcome = %self.subscription_task.describe(&outcome), "the server does not keep a stream of notices");
            self.is_refused = true;
        } else if !is_refusal {
            self.pause(stream.started);
        }
    }

    /// Handles the end of the current stream.
    fn lost(&mut self, end: &Result<Reply, Error>) {
        let Some(stream) = self.current.take() else { return };
        self.was_away = true;
        self.is_refused = is_refusal(end);
        self.pause(stream.started);
    }

    fn pause(&mut self, started: Instant) {
        self.reopen_at = Some(Instant::now() + self.pauses.after(started.elapsed()));
    }
}

impl ListenStream {
    fn open(connection: &Arc<dyn Connection>, call: Call, requested: BTreeSet<Subject>) -> Self {
        let (event_sender, receiver) = EventSender::new(4);
        let connection = Arc::clone(connection);
        let answer = Box::pin(async move { connection.request(&call, &event_sender).await?.collect().await });
        Self { requested, honoured: BTreeSet::new(), started: Instant::now(), answer, receiver }
    }

    /// Returns the subscriptions that the server accepted. An acknowledgment without a list accepts all.
    fn honoured(&self, acknowledgement: &Notification) -> BTreeSet<Subject> {
        let filter = acknowledgement.params.as_ref().and_then(|params| params.get("notifications"));
        let Some(filter) = filter else { return self.requested.clone() };
        let named = |member| filter.get_as::<Vec<String>>(member).unwrap_or_default().into_iter();
        let resources = named("resourceSubscriptions").map(|uri| Subject::Resource(uri.into()));
        resources.chain(named("taskIds").map(|id| Subject::Task(id.into()))).collect()
    }
}

/// Makes the request that opens the stream.
fn call(lists: Lists, subjects: &BTreeSet<Subject>) -> Call {
    let (mut resources, mut tasks) = (Vec::new(), Vec::new());
    for subject in subjects {
        match subject {
            Subject::Resource(uri) => resources.push(uri.as_ref()),
            Subject::Task(id) => tasks.push(id.as_ref()),
        }
    }
    let yes = Raw::of(&true);
    let (resources, tasks) = (some(&resources), some(&tasks));
    let mut members: Vec<_> = lists.iter().map(|list| (list.filter(), Some(&yes))).collect();
    members.push(("resourceSubscriptions", resources.as_ref()));
    members.push(("taskIds", tasks.as_ref()));
    let filter = Raw::empty_object().edit(&members);
    let params = Raw::empty_object().with("notifications", &filter);
    let mut call = Call::of_gateway(method::SUBSCRIPTIONS_LISTEN, Some(params));
    if tasks.is_some() {
        // Without this capability a server has to refuse them.
        let declared = Raw::empty_object().with(TASKS_EXTENSION, &Raw::empty_object());
        call.sender.capabilities = Raw::empty_object().with("extensions", &declared);
    }
    call
}

/// How long other changes are collected after a request.
fn pace(call: &Call) -> Duration {
    let bytes = call.params.as_ref().map_or(0, |params| params.bytes().len());
    if bytes < LARGE {
        return Duration::ZERO;
    }
    // Not more than all subjects of a server, which `f64` represents exactly.
    Duration::from_secs_f64(f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / RATE)
}

fn some(names: &[&str]) -> Option<Raw> {
    (!names.is_empty()).then(|| Raw::of(&names))
}

/// Returns the accepted subscriptions once the server acknowledges the stream. The error is how the stream
/// ended before.
async fn acknowledged(next: &mut Option<ListenStream>) -> Result<BTreeSet<Subject>, Result<Reply, Error>> {
    let Some(stream) = next else { return pending().await };
    loop {
        tokio::select! {
            biased;
            Some(event) = stream.receiver.recv() => {
                if let CallEvent::Notice(notice) = event
                    && notice.method == method::SUBSCRIPTIONS_ACKNOWLEDGED
                {
                    return Ok(stream.honoured(&notice));
                }
            }
            end = &mut stream.answer => return Err(end),
            () = sleep_until(stream.started + ACKNOWLEDGED_AFTER) => return Ok(stream.requested.clone()),
        }
    }
}

/// Resolves with the result of the stream.
async fn ended(current: &mut Option<ListenStream>) -> Result<Reply, Error> {
    match current {
        Some(stream) => (&mut stream.answer).await,
        None => pending().await,
    }
}

fn is_refusal(end: &Result<Reply, Error>) -> bool {
    match end {
        Ok(Err(_)) | Err(Error::Malformed { .. } | Error::Unreadable { .. }) => true,
        // These statuses are temporary: timeout, too early, too many requests.
        Err(Error::Status { status, .. }) => (400..500).contains(status) && ![408, 425, 429].contains(status),
        _ => false,
    }
}

/// Pauses between attempts to open a long stream.
#[derive(Debug)]
pub(crate) struct ReopenPauses(Duration);

impl ReopenPauses {
    pub(crate) const fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    /// Returns the pause after a stream that lived for `lifetime`. After a long life the pauses start over.
    /// After repeated failures they double.
    pub(crate) fn after(&mut self, lifetime: Duration) -> Duration {
        if lifetime > LONGEST_PAUSE {
            *self = Self::new();
        }
        let pause = jittered(self.0);
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// Returns a random duration between half of `pause` and `pause`, so that many instances do not return at
/// once.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..1.0))
}

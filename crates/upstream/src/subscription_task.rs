//! The task that subscribes to one server on behalf of its clients.
//!
//! It uses the oldest connection. For a modern server it keeps one `subscriptions/listen` stream open. When
//! the subscriptions change, it opens a new stream before the old one ends. To a legacy server it sends
//! `resources/subscribe` for each resource. Changes of lists need no subscription there.
//!
//! Invariants: a new connection renews all subscriptions. Every resource then counts as updated once, because
//! notifications may have been missed.
//!
//! Source: 2026-07-28 `basic/patterns/subscriptions`, `server/resources` of the revisions before.
//! Not here: the notifications, which arrive like any other message of a transport.

mod listen;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use serde_json::json;
use tokio::time::{Instant, timeout, timeout_at};

use super::{COMMAND_RETRY_IN, Upstream};
pub(crate) use listen::ReopenPauses;

use super::connection::{Call, Connection, Event, EventSender, Events};
use super::dialect::PoolRequest;
use super::error::Error;
use super::pool::{self, Pool};
use super::secrets::Secrets;
use super::watches::{Subject, WatchOutcome, WatchRefusal, Watches, Watching};
use crate::session_affinity::Affinity;
use json::Raw;
use protocol::method;
use protocol::sanitize::shown;
use runtime::telemetry::pace::Pace;

/// Most requests to subscribe at a time.
const AT_A_TIME: usize = 8;

/// Subscribes to one server.
pub(super) struct SubscriptionTask {
    pub(super) pool: Arc<Pool>,
    pub(super) watches: Arc<Watches>,
    pub(super) events: Events,
    /// Secrets that are redacted from messages of the server in the log.
    pub(super) secrets: Secrets,
    /// Time limit of a request to the server.
    pub(super) limit: Duration,
    /// Limits the log lines about subscriptions that could not be renewed.
    pace: Pace,
}

impl SubscriptionTask {
    /// Runs until the task is dropped.
    pub(super) async fn run(self) {
        let mut occupancy = self.pool.occupancy();
        let mut last: Option<Arc<dyn Connection>> = None;
        loop {
            occupancy.mark_unchanged();
            match self.pool.oldest() {
                Some(next) if last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, &next)) => {
                    last = Some(Arc::clone(&next));
                    tokio::select! {
                        () = self.serve(Arc::clone(&next)) => {}
                        () = self.is_passed_over(&next) => {}
                    }
                }
                // There is no connection, or only one that is about to close.
                _ => {
                    if occupancy.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Subscribes on one connection until it closes.
    pub(super) async fn serve(&self, connection: Arc<dyn Connection>) {
        let work = async {
            if connection.peer().version.is_modern() {
                listen::Listening::new(self, &connection).run().await;
            } else {
                self.subscribe(connection.as_ref()).await;
            }
        };
        tokio::select! {
            () = work => {}
            _ = connection.closed() => {}
        }
    }

    /// Resolves when another connection is the oldest, because this one was replaced.
    async fn is_passed_over(&self, connection: &Arc<dyn Connection>) {
        let mut occupancy = self.pool.occupancy();
        while self.pool.oldest().is_none_or(|oldest| Arc::ptr_eq(&oldest, connection)) {
            if occupancy.changed().await.is_err() {
                return;
            }
        }
    }

    /// Keeps the subscriptions at a legacy server up to date, without end.
    async fn subscribe(&self, connection: &dyn Connection) {
        let mut changes = self.watches.changes();
        let mut there = HashSet::new();
        loop {
            changes.mark_unchanged();
            self.align(connection, &mut there).await;
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Reconciles the active subscriptions (`there`) with the desired ones.
    async fn align(&self, connection: &dyn Connection, there: &mut HashSet<Subject>) {
        let desired = self.watches.desired();
        let gone: Vec<Subject> = there.extract_if(|subject| !desired.contains_key(subject)).collect();
        let mut requests: Vec<BoxFuture<'_, Option<Subject>>> = Vec::new();
        for subject in gone {
            requests.push(self.end(connection, subject).boxed());
        }
        let mut renewed = false;
        for (subject, agreed) in desired {
            if !there.contains(&subject) {
                renewed |= agreed;
                requests.push(self.begin(connection, subject, agreed).boxed());
            } else if !agreed {
                // The server has already confirmed this subscription for another client.
                self.watches.settle(&subject, Ok(Ok(Raw::empty_object())));
            }
        }
        let done: Vec<_> = stream::iter(requests).buffer_unordered(AT_A_TIME).collect().await;
        there.extend(done.into_iter().flatten());
        if renewed {
            self.missed();
        }
    }

    /// Subscribes to `subject`. Returns it if the subscription is settled.
    async fn begin(&self, connection: &dyn Connection, subject: Subject, agreed: bool) -> Option<Subject> {
        let outcome = self.ask(connection, method::RESOURCES_SUBSCRIBE, &subject).await;
        self.conclude(&subject, agreed, outcome).then_some(subject)
    }

    async fn end(&self, connection: &dyn Connection, subject: Subject) -> Option<Subject> {
        // The response changes nothing.
        let _ = self.ask(connection, method::RESOURCES_UNSUBSCRIBE, &subject).await;
        None
    }

    /// Reports the outcome of a subscription. Returns whether the subscription is settled.
    pub(super) fn conclude(&self, subject: &Subject, agreed: bool, outcome: WatchOutcome) -> bool {
        if agreed {
            // Its clients wait for notifications, not for an answer.
            if !matches!(outcome, Ok(Ok(_)))
                && let Some(suppressed) = self.pace.admit()
            {
                let outcome = self.describe(&outcome);
                tracing::warn!(?subject, %outcome, suppressed, "a subscription could not be renewed");
            }
            return true;
        }
        let is_agreed = matches!(outcome, Ok(Ok(_)));
        self.watches.settle(subject, outcome);
        is_agreed
    }

    /// Returns the answer of a server, for the log.
    pub(super) fn describe(&self, outcome: &WatchOutcome) -> String {
        shown(&self.secrets.redact(&format!("{outcome:?}")))
    }

    /// Reports that notifications may have been missed.
    pub(super) fn missed(&self) {
        self.events.report(Event::Missed);
    }

    async fn ask(&self, connection: &dyn Connection, method: &str, subject: &Subject) -> WatchOutcome {
        // A legacy server sends task notifications without a subscription.
        let Subject::Resource(uri) = subject else { return Ok(Ok(Raw::empty_object())) };
        let call = Call::of_gateway(method, Some(Raw::of(&json!({ "uri": uri }))));
        let response = timeout(self.limit, connection.request(&call, &EventSender::none())).await;
        let reply = response.unwrap_or(Err(Error::TimedOut { after: self.limit }))?.collect().await?;
        Ok(reply.map_err(WatchRefusal::Refused))
    }
}

impl Upstream {
    /// Subscribes `principal` to `subject` until the [`Watching`] is dropped, and returns it with the
    /// server's answer. Connects if needed. It ends by `deadline`.
    pub async fn watch(
        &self,
        (principal, affinity): (&Arc<str>, Option<&Affinity>),
        subject: Subject,
        deadline: Instant,
    ) -> Result<Result<(Raw, Watching), WatchRefusal>, Error> {
        self.pool.check_open()?;
        if let Some(retry_in) = self.breaker.refuses_for(None) {
            return Err(Error::CircuitOpen { retry_in });
        }
        let full = Error::Overloaded { retry_in: COMMAND_RETRY_IN };
        let started = Instant::now();
        let client = affinity.and_then(|affinity| self.pool.private_clients.get(affinity));
        let watches = client.as_ref().map_or(&self.watches, |client| &client.watches);
        let (watching, mut outcome) = watches.add(principal, subject).ok_or(full)?;
        let answered = async {
            // A connection is enough, because the task subscribes on every new one.
            if client.is_none() {
                self.pool.acquire(PoolRequest::Own).await?;
            }
            let outcome = outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
            outcome.unwrap_or(Err(Error::Unavailable { state: pool::SHUTTING_DOWN }))
        };
        let late = |_| Err(Error::TimedOut { after: started.elapsed() });
        let reply = timeout_at(deadline, answered).await.unwrap_or_else(late);
        let reply = reply.map_err(|error| self.secrets.redact_error(error))?;
        Ok(reply.map(|result| (result, watching)))
    }

    /// Returns the number of subjects that clients watch.
    pub fn watched(&self) -> usize {
        self.watches.count()
    }

    /// Returns the task that subscribes to the subjects of `watches` and reports to `events`.
    pub(super) fn subscription_task(&self, watches: &Arc<Watches>, events: Events) -> SubscriptionTask {
        let (pool, watches) = (Arc::clone(&self.pool), Arc::clone(watches));
        SubscriptionTask {
            pool,
            watches,
            events,
            secrets: self.secrets.clone(),
            limit: self.config.timeout,
            pace: Pace::new(),
        }
    }
}

#[cfg(test)]
#[path = "subscription_task_tests.rs"]
mod tests;

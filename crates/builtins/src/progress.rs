//! Progress notifications of a running tool, and the facts about its call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use json::{Part, Raw};
use protocol::{Method, Notification, method};
use upstream::api::{Affinity, Call, EventSender};

/// Sends notifications to the client of a call. Clones share the call. After the call has ended,
/// notifications are dropped.
#[derive(Debug, Clone)]
pub struct Report {
    event_sender: EventSender,
    wants_progress: bool,
    affinity: Option<Affinity>,
    /// The parameters of the call.
    params: Option<Raw>,
    can_list_roots: bool,
    /// Step counter. Progress must grow with every message (2026-07-28 `basic/utilities/progress`).
    step: Arc<AtomicU64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    /// Replaced by the client's own token on the way to the client.
    progress_token: u64,
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    message: &'a str,
}

impl Report {
    /// Reports through `event_sender`. `wants_progress`: the client asked for progress.
    pub fn new(event_sender: &EventSender, wants_progress: bool) -> Self {
        Self {
            event_sender: event_sender.clone(),
            wants_progress,
            affinity: None,
            params: None,
            can_list_roots: false,
            step: Arc::default(),
        }
    }

    /// Reports to the client of `call`, through `event_sender`.
    pub(super) fn of(call: &Call, event_sender: &EventSender) -> Self {
        Self {
            affinity: call.affinity.clone(),
            params: call.params.clone(),
            can_list_roots: call.sender.capabilities.part("roots").is_some_and(Part::is_object),
            ..Self::new(event_sender, call.wants_progress)
        }
    }

    /// Makes a report without a receiver.
    pub fn none() -> Self {
        Self::new(&EventSender::none(), false)
    }

    /// Whether the client asked for progress.
    pub const fn wants_progress(&self) -> bool {
        self.wants_progress
    }

    /// Identifies the client, for state that is kept per client. `None` for a program without sessions.
    pub const fn affinity(&self) -> Option<&Affinity> {
        self.affinity.as_ref()
    }

    /// Returns the member `name` of the call's `_meta`.
    pub fn meta(&self, name: &str) -> Option<Raw> {
        self.params.as_ref()?.get("_meta")?.get(name)
    }

    /// Returns the client's answer to the input request `key`, if the call is repeated with one.
    pub fn input(&self, key: &str) -> Option<Raw> {
        self.params.as_ref()?.get("inputResponses")?.get(key)
    }

    /// Whether the client supports `roots/list`.
    pub(crate) const fn can_list_roots(&self) -> bool {
        self.can_list_roots
    }

    /// Reports that `done` of `total` items are finished.
    pub fn counted(&self, done: usize, total: usize, message: &str) {
        #[allow(clippy::cast_precision_loss)] // of some thousands
        self.offer(done as f64, Some(total as f64), message);
    }

    /// Reports one more step of work whose total is unknown.
    pub fn step(&self, message: &str) {
        let step = self.step.fetch_add(1, Ordering::Relaxed) + 1;
        #[allow(clippy::cast_precision_loss)] // a number of messages
        self.offer(step as f64, None, message);
    }

    /// Reports the finished share of the whole (1.0). Callers must only increase it.
    pub fn share(&self, done: f64, message: &str) {
        self.offer(done, Some(1.0), message);
    }

    fn offer(&self, progress: f64, total: Option<f64>, message: &str) {
        if self.wants_progress {
            let params = Raw::of(&Params { progress_token: 0, progress, total, message });
            let method = Method::constant(method::PROGRESS);
            self.event_sender.offer(Notification { method, params: Some(params) });
        }
    }
}

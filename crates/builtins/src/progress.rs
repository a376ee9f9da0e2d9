//! What a tool may tell its caller while it runs, and may know of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use json::{Part, Raw};
use protocol::{Method, Notification, method};
use upstream::api::{Call, Home, Outlet};

/// The way to whoever made a call. Clones lead to the same caller; one that is used when the call is
/// over is not heard.
#[derive(Debug, Clone)]
pub struct Report {
    outlet: Outlet,
    wants_progress: bool,
    home: Option<Home>,
    /// The parameters of the call.
    params: Option<Raw>,
    can_list_roots: bool,
    /// Progress grows with every message (2026-07-28 `basic/utilities/progress`).
    step: Arc<AtomicU64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    /// Whoever passes it on puts the client's own token here.
    progress_token: u64,
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    message: &'a str,
}

impl Report {
    /// The way through `outlet`, to somebody who asked for progress or did not.
    pub fn new(outlet: &Outlet, wants_progress: bool) -> Self {
        Self {
            outlet: outlet.clone(),
            wants_progress,
            home: None,
            params: None,
            can_list_roots: false,
            step: Arc::default(),
        }
    }

    /// The way to whoever made `call`, through `outlet`.
    pub(super) fn of(call: &Call, outlet: &Outlet) -> Self {
        Self {
            home: call.home.clone(),
            params: call.params.clone(),
            can_list_roots: call.sender.capabilities.part("roots").is_some_and(Part::is_object),
            ..Self::new(outlet, call.wants_progress)
        }
    }

    /// To nobody.
    pub fn none() -> Self {
        Self::new(&Outlet::none(), false)
    }

    /// Whether progress is worth making.
    pub const fn wants_progress(&self) -> bool {
        self.wants_progress
    }

    /// Whose it is: what is kept for one client is kept under this. None: a program without sessions.
    pub const fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    /// The member `name` of the `_meta` of the call.
    pub fn meta(&self, name: &str) -> Option<Raw> {
        self.params.as_ref()?.get("_meta")?.get(name)
    }

    /// The answer of the client to the input request `key`, where the call is made again with one.
    pub fn input(&self, key: &str) -> Option<Raw> {
        self.params.as_ref()?.get("inputResponses")?.get(key)
    }

    /// Whether the client can be asked for its folders (`roots/list`).
    pub const fn can_list_roots(&self) -> bool {
        self.can_list_roots
    }

    /// Reports that `done` of `total` items are finished.
    pub fn counted(&self, done: usize, total: usize, message: &str) {
        #[allow(clippy::cast_precision_loss)] // of some thousands
        self.offer(done as f64, Some(total as f64), message);
    }

    /// Says that the work went on, when there is no telling how much is left.
    pub fn step(&self, message: &str) {
        let step = self.step.fetch_add(1, Ordering::Relaxed) + 1;
        #[allow(clippy::cast_precision_loss)] // a number of messages
        self.offer(step as f64, None, message);
    }

    /// Says how much of the whole (1.0) is done. Whoever calls it lets it grow.
    pub fn share(&self, done: f64, message: &str) {
        self.offer(done, Some(1.0), message);
    }

    fn offer(&self, progress: f64, total: Option<f64>, message: &str) {
        if self.wants_progress {
            let params = Raw::of(&Params { progress_token: 0, progress, total, message });
            let method = Method::constant(method::PROGRESS);
            self.outlet.offer(Notification { method, params: Some(params) });
        }
    }
}

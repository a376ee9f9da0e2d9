//! State of the fake R2R: collections, documents, received requests and the faults to simulate.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::recorded_results;
use super::routes::ParsedRequest;
use super::users::Users;

/// Most requests that are recorded.
const MOST_SEEN: usize = 10_000;
/// Statuses of a document, in order.
const STEPS: [&str; 6] = ["pending", "parsing", "chunking", "embedding", "storing", "success"];

/// Simulated fault of a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// An error status: R2R's own 4xx and 500, or a proxy's from 502 on.
    Status(u16),
    /// Status 429, and `Retry-After` in seconds.
    RateLimited(Option<u64>),
    /// The recorded response of this name.
    Recorded(&'static str),
    /// The request is handled, but its response is a proxy's 502.
    Lost,
    /// No response.
    Hang,
}

/// One received request.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// Method of the request.
    pub method: String,
    /// Path as it was sent.
    pub path: String,
    /// Query string, without the question mark.
    pub query: String,
    /// All headers but the host.
    pub headers: Vec<(String, String)>,
    /// Body as text.
    pub body: String,
}

#[derive(Debug)]
pub(super) struct State {
    pub users: Users,
    pub collections: Vec<Collection>,
    pub documents: Vec<Document>,
    pub is_queued: bool,
    pub ingestion_time: Duration,
    pub failure: Option<String>,
    pub faults: Vec<(String, usize, Fault)>,
    pub delays: Vec<(String, Duration)>,
    pub counts: BTreeMap<String, usize>,
    pub seen: Vec<ReceivedRequest>,
    clock: u64,
}

#[derive(Debug)]
pub(super) struct Collection {
    pub id: String,
    pub is_ours: bool,
    pub shown: Value,
}

#[derive(Debug)]
pub(super) struct Document {
    pub id: String,
    pub text: String,
    pub metadata: Value,
    /// Collections that the document joins when it was ingested or failed.
    pub collections: Vec<String>,
    pub step: usize,
    pub failure: Option<String>,
    base: Value,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            users: Users::new(),
            collections: Vec::new(),
            documents: Vec::new(),
            is_queued: false,
            ingestion_time: Duration::ZERO,
            failure: None,
            faults: Vec::new(),
            delays: Vec::new(),
            counts: BTreeMap::new(),
            seen: Vec::new(),
            clock: 0,
        }
    }

    pub(super) fn note(&mut self, request: &ParsedRequest) {
        *self.counts.entry(request.route()).or_default() += 1;
        if self.seen.len() < MOST_SEEN {
            self.seen.push(request.seen());
        }
    }

    pub(super) fn pause(&self, path: &str) -> Duration {
        let fitting = self.delays.iter().find(|(part, _)| path.contains(part));
        fitting.map_or(Duration::ZERO, |(_, pause)| *pause)
    }

    pub(super) fn fault(&mut self, line: &str) -> Option<Fault> {
        let fitting = self.faults.iter_mut().find(|(part, times, _)| *times > 0 && line.contains(&**part));
        fitting.map(|(_, times, fault)| {
            *times -= 1;
            fault.clone()
        })
    }

    /// Returns a time that is later than all others.
    fn now(&mut self) -> String {
        self.clock += 1;
        let second = OffsetDateTime::now_utc().truncate_to_second().format(&Rfc3339).expect("a date");
        format!("{}.{:06}Z", second.trim_end_matches('Z'), self.clock)
    }

    pub(super) fn add_collection(&mut self, name: &str, description: Option<&str>) -> Value {
        let id = Uuid::new_v4().to_string();
        let (now, mut shown) = (self.now(), recorded_results("collection-create"));
        for (member, value) in [
            ("id", json!(id)),
            ("name", json!(name)),
            ("description", json!(description)),
            ("created_at", json!(now)),
            ("updated_at", json!(now)),
        ] {
            shown[member] = value;
        }
        self.collections.push(Collection { id, is_ours: true, shown: shown.clone() });
        shown
    }

    pub(super) fn foreign_collection(&mut self, name: &str) -> String {
        self.add_collection(name, None);
        let added = self.collections.last_mut().expect("it was added");
        added.is_ours = false;
        added.shown["owner_id"] = json!(Uuid::new_v4().to_string());
        added.id.clone()
    }

    pub(super) fn collection(&self, id: &str) -> Option<&Collection> {
        self.collections.iter().find(|collection| collection.id == id)
    }

    pub(super) fn document(&mut self, id: &str) -> Option<&mut Document> {
        self.documents.iter_mut().find(|document| document.id == id)
    }

    /// Adds a document and starts its ingestion.
    pub(super) fn add_document(
        &mut self,
        id: String,
        title: &str,
        text: String,
        metadata: Value,
    ) -> &mut Document {
        let now = self.now();
        let mut base = recorded_results("document-retrieve");
        let kind = title.rsplit_once('.').map_or("txt", |(_, extension)| extension);
        for (member, value) in [
            ("id", json!(id)),
            ("title", json!(title)),
            ("document_type", json!(kind)),
            ("size_in_bytes", json!(text.len())),
            ("created_at", json!(now)),
            ("updated_at", json!(now)),
        ] {
            base[member] = value;
        }
        let failure = self.failure.clone();
        let step = match self.ingestion_time {
            _ if self.is_queued => 0,
            Duration::ZERO => STEPS.len() - 1,
            _ => 1,
        };
        self.documents.retain(|document| document.id != id);
        self.documents.push(Document { id, text, metadata, collections: Vec::new(), step, failure, base });
        self.documents.last_mut().expect("it was added")
    }

    /// Ends the ingestion of the document `id`.
    pub(super) fn finish(&mut self, id: &str) {
        if let Some(document) = self.document(id) {
            document.step = STEPS.len() - 1;
        }
    }
}

impl Document {
    pub(super) fn status(&self) -> &'static str {
        match self.failure {
            Some(_) if self.step > 1 => "failed",
            _ => STEPS[self.step.min(STEPS.len() - 1)],
        }
    }

    pub(super) fn is_in(&self, collection: &str) -> bool {
        self.has_ended() && self.collections.iter().any(|id| id == collection)
    }

    fn has_ended(&self) -> bool {
        ["success", "failed"].contains(&self.status())
    }

    pub(super) fn abandon(&mut self) {
        self.step = 1;
        self.base["updated_at"] = json!("2020-01-01T00:00:00.500000Z");
    }

    pub(super) fn go_on(&mut self) {
        self.step = (self.step + 1).min(STEPS.len() - 1);
    }

    /// Returns the document as R2R shows it: without collections until it was ingested or failed.
    pub(super) fn shown(&self) -> Value {
        let mut shown = self.base.clone();
        let mut metadata = self.metadata.clone();
        metadata["version"] = json!("v0");
        if let ("failed", Some(reason)) = (self.status(), &self.failure) {
            metadata["failure"] = json!(reason);
        }
        shown["metadata"] = metadata;
        shown["ingestion_status"] = json!(self.status());
        let there: &[String] = if self.has_ended() { &self.collections } else { &[] };
        shown["collection_ids"] = json!(there);
        shown
    }
}

//! Fake Chroma for tests, in memory. It imitates the observed behavior of the real one: `upsert` merges
//! metadata, missing ids are skipped silently, and deleting by ids returns the number of requested ids. A
//! query reads the texts a moment after it selected the nearest records. It fails if one of the ids that it
//! is restricted to is missing. The fake can fail at a request, before or after its effect, and can order the
//! requests of several callers.

mod mock_store;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use serde_json::{Value, json};
use tokio::sync::Notify;
use url::Url;
use uuid::Uuid;

pub(crate) use crate::chroma::double::mock_store::Stored;
use crate::chroma::double::mock_store::{Answer, StoredCollection, error, ok, shown};
use runtime::shutdown::Shutdown;

/// Fails at the request of this number, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Before(usize),
    After(usize),
}

#[derive(Debug, Default)]
struct State {
    kept: BTreeMap<String, StoredCollection>,
    seen: Vec<String>,
    fault: Option<Fault>,
    /// Every request fails.
    is_down: bool,
    /// No request is answered.
    is_mute: bool,
    tampering: Option<Tampering>,
}

/// Changes the responses to requests whose path ends with `at`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tampering {
    pub at: &'static str,
    pub with: fn(&mut Value),
}

/// Order of callers, which are identified by their token.
#[derive(Debug, Default)]
struct Turns {
    order: Vec<char>,
    done: HashSet<char>,
}

/// See the head of this file.
pub(crate) struct Double {
    pub url: Url,
    state: Arc<Mutex<State>>,
    turns: Arc<(Mutex<Turns>, Notify)>,
    tasks: Shutdown,
}

impl Double {
    pub(crate) async fn start() -> Self {
        let (state, turns) = (Arc::<Mutex<State>>::default(), Arc::<(Mutex<Turns>, Notify)>::default());
        let (own, gate) = (Arc::clone(&state), Arc::clone(&turns));
        let router = Router::new().fallback(move |request: Request<Body>| {
            let (state, gate) = (Arc::clone(&own), Arc::clone(&gate));
            async move {
                let who =
                    request.headers().get("authorization").and_then(|who| who.to_str().ok()?.chars().last());
                let (parts, body) = request.into_parts();
                let body = to_bytes(body, 64 << 20).await.expect("a body");
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                wait(&gate, who).await;
                let path = parts.uri.path_and_query().expect("a path").as_str().to_owned();
                let answered = state.lock().expect("lock").answer(parts.method.as_str(), &path, &body);
                let (status, mut answer) = answered;
                gate.1.notify_waiters();
                let reads_up = !body["include"].as_array().is_some_and(|all| all == &["distances"]);
                if path.ends_with("/query") && status.is_success() && reads_up {
                    wait(&gate, who).await;
                    state.lock().expect("lock").read_up(&path, &mut answer);
                    gate.1.notify_waiters();
                }
                let (is_mute, tampering) = state.lock().expect("lock").spoiling(&path);
                if is_mute {
                    std::future::pending::<()>().await;
                }
                if let Some(tampering) = tampering {
                    (tampering.with)(&mut answer);
                }
                (status, answer.to_string())
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let tasks = Shutdown::new();
        tasks.spawn_until_end(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { url: Url::parse(&url).expect("a URL"), state, turns, tasks }
    }

    /// Admits requests of these callers in this order, and all others afterwards.
    pub(super) fn order(&self, order: Vec<char>) {
        *self.turns.0.lock().expect("lock") = Turns { order, done: HashSet::new() };
    }

    /// Declares that `who` makes no more requests.
    pub(super) fn done(&self, who: char) {
        self.turns.0.lock().expect("lock").done.insert(who);
        self.turns.1.notify_waiters();
    }

    pub(crate) fn fail(&self, fault: Option<Fault>) {
        let mut state = self.state.lock().expect("lock");
        (state.fault, state.is_down) = (fault, false);
        state.seen.clear();
    }

    /// Sets whether requests remain without a response.
    pub(crate) fn mute(&self, is_mute: bool) {
        self.state.lock().expect("lock").is_mute = is_mute;
    }

    /// Sets how responses are changed from now on.
    pub(crate) fn tamper(&self, tampering: Option<Tampering>) {
        self.state.lock().expect("lock").tampering = tampering;
    }

    /// Returns method and path of each request since the last fault was set.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.state.lock().expect("lock").seen.clone()
    }

    /// Returns the records of a collection, by its name at Chroma.
    pub(crate) fn records(&self, name: &str) -> BTreeMap<String, Stored> {
        self.state.lock().expect("lock").kept.get(name).map(|kept| kept.records.clone()).unwrap_or_default()
    }

    /// Drops a collection behind our back.
    pub(crate) fn drop_collection(&self, name: &str) {
        self.state.lock().expect("lock").kept.remove(name);
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        self.tasks.begin();
    }
}

async fn wait(gate: &(Mutex<Turns>, Notify), who: Option<char>) {
    let Some(who) = who else { return };
    loop {
        let mut told = std::pin::pin!(gate.1.notified());
        told.as_mut().enable();
        {
            let mut turns = gate.0.lock().expect("lock");
            let Turns { order, done } = &mut *turns;
            let next = order.iter().position(|one| !done.contains(one));
            match next {
                Some(at) if order[at] == who => {
                    order.drain(..=at);
                    return;
                }
                Some(_) => {}
                None => return,
            }
        }
        told.await;
    }
}

impl State {
    fn spoiling(&self, path: &str) -> (bool, Option<Tampering>) {
        (self.is_mute, self.tampering.filter(|tampering| path.ends_with(tampering.at)))
    }

    fn answer(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let at = self.seen.len();
        self.seen.push(format!("{method} {}", path.rsplit('/').next().unwrap_or_default()));
        let gone = || error(503, "InternalError", "the server is gone");
        if self.is_down || self.fault == Some(Fault::Before(at)) {
            self.is_down = true;
            return gone();
        }
        let answer = self.act(method, path, body);
        if self.fault == Some(Fault::After(at)) {
            self.is_down = true;
            return gone();
        }
        answer
    }

    fn act(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let parts: Vec<&str> = path.trim_start_matches("/api/v2/").split('/').collect();
        match (method, parts.as_slice()) {
            ("GET", ["pre-flight-checks"]) => {
                ok(json!({"max_batch_size": 7, "supports_base64_encoding": true}))
            }
            ("GET", ["tenants", _, "databases", _]) => ok(json!({"name": "default_database"})),
            ("GET", ["tenants", _, "databases", _, "collections"]) => ok(self.list(query)),
            ("POST", ["tenants", _, "databases", _, "collections"]) => self.create(body),
            ("GET", [.., "collections", name]) => match self.kept.get(*name) {
                Some(kept) => ok(shown(name, kept)),
                None => error(404, "NotFoundError", &format!("Collection [{name}] does not exist")),
            },
            ("DELETE", [.., "collections", name]) => match self.kept.remove(*name) {
                Some(_) => ok(json!({})),
                None => error(404, "NotFoundError", &format!("Collection [{name}] does not exist")),
            },
            (method, [.., "collections", id] | [.., "collections", id, _]) => {
                let what = if parts.last() == Some(id) { "" } else { parts.last().unwrap_or(&"") };
                let Some(kept) = self.kept.values_mut().find(|kept| kept.id.to_string() == **id) else {
                    return error(404, "NotFoundError", &format!("Collection [{id}] does not exist."));
                };
                kept.act(method, what, body)
            }
            _ => error(404, "NotFoundError", ""),
        }
    }

    /// Reads the content of records after their ids were found, so that it may have changed in between.
    fn read_up(&self, path: &str, answer: &mut Value) {
        let kept = self.kept.values().find(|kept| path.contains(&kept.id.to_string()));
        let ids: Vec<String> = serde_json::from_value(answer["ids"][0].clone()).expect("ids");
        let stored: Vec<Option<&Stored>> =
            ids.iter().map(|id| kept.and_then(|kept| kept.records.get(id))).collect();
        let documents: Vec<_> = stored.iter().map(|one| one.map(|one| one.document.clone())).collect();
        let metadatas: Vec<_> = stored.iter().map(|one| one.map(|one| one.metadata.clone())).collect();
        answer["documents"] = json!([documents]);
        answer["metadatas"] = json!([metadatas]);
    }

    fn list(&self, query: &str) -> Value {
        let number = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            value.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        let all = self.kept.iter().skip(number("offset")).take(number("limit"));
        all.map(|(name, kept)| shown(name, kept)).collect()
    }

    fn create(&mut self, body: &Value) -> Answer {
        let name = body["name"].as_str().expect("a name").to_owned();
        if self.kept.contains_key(&name) {
            return error(409, "ChromaError", &format!("Collection [{name}] already exists"));
        }
        let space = body["configuration"]["hnsw"]["space"].as_str().unwrap_or("l2").to_owned();
        let metadata = body["metadata"].clone();
        let kept = StoredCollection {
            id: Uuid::new_v4(),
            metadata,
            space,
            dimension: None,
            records: BTreeMap::new(),
        };
        let answer = shown(&name, &kept);
        self.kept.insert(name, kept);
        ok(answer)
    }
}

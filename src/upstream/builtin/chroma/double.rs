//! For tests: a Chroma in memory that does what the real one was seen doing, its silence included: `upsert`
//! merges metadata, what is missing is left out, deleting by ids counts what was asked, a query reads the
//! texts a moment after it has seen which records are near. It can fail at a request, before or after it
//! did what was asked, and let requests through in a given order.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use url::Url;
use uuid::Uuid;

use super::judging::{distance, fits};
use crate::shutdown::Shutdown;

type Answer = (StatusCode, Value);

/// One record.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub document: String,
    pub metadata: Map<String, Value>,
    vector: Vec<f64>,
}

#[derive(Debug, Clone)]
struct Kept {
    id: Uuid,
    metadata: Value,
    space: String,
    dimension: Option<usize>,
    records: BTreeMap<String, Stored>,
}

/// When it fails: at the request of this number, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Before(usize),
    After(usize),
}

#[derive(Debug, Default)]
struct State {
    kept: BTreeMap<String, Kept>,
    seen: Vec<String>,
    fault: Option<Fault>,
    /// From then on everything fails.
    is_down: bool,
}

/// Who goes next: callers tell who they are by their token.
#[derive(Debug, Default)]
struct Turns {
    order: Vec<char>,
    done: HashSet<char>,
}

/// See the head of this file.
pub(super) struct Double {
    pub url: Url,
    state: Arc<Mutex<State>>,
    turns: Arc<(Mutex<Turns>, Notify)>,
    tasks: Shutdown,
}

impl Double {
    pub(super) async fn start() -> Self {
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
                if path.ends_with("/query") && status.is_success() {
                    wait(&gate, who).await;
                    state.lock().expect("lock").read_up(&path, &mut answer);
                    gate.1.notify_waiters();
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

    /// Requests of these callers are let through in this order, and then as they come.
    pub(super) fn order(&self, order: Vec<char>) {
        *self.turns.0.lock().expect("lock") = Turns { order, done: HashSet::new() };
    }

    /// `who` makes no more requests.
    pub(super) fn done(&self, who: char) {
        self.turns.0.lock().expect("lock").done.insert(who);
        self.turns.1.notify_waiters();
    }

    pub(super) fn fail(&self, fault: Option<Fault>) {
        let mut state = self.state.lock().expect("lock");
        (state.fault, state.is_down) = (fault, false);
        state.seen.clear();
    }

    /// Method and path of each request since the last fault was set.
    pub(super) fn seen(&self) -> Vec<String> {
        self.state.lock().expect("lock").seen.clone()
    }

    /// The records of a collection, by the name that Chroma has.
    pub(super) fn records(&self, name: &str) -> BTreeMap<String, Stored> {
        self.state.lock().expect("lock").kept.get(name).map(|kept| kept.records.clone()).unwrap_or_default()
    }

    /// Drops a collection behind our back.
    pub(super) fn drop_collection(&self, name: &str) {
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

fn error(status: u16, kind: &str, message: &str) -> Answer {
    let status = StatusCode::from_u16(status).expect("a status");
    (status, json!({"error": kind, "message": message}))
}

fn ok(answer: Value) -> Answer {
    (StatusCode::OK, answer)
}

impl State {
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

    /// Which records are near is seen at one moment, what they say a moment later.
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
        let kept = Kept { id: Uuid::new_v4(), metadata, space, dimension: None, records: BTreeMap::new() };
        let answer = shown(&name, &kept);
        self.kept.insert(name, kept);
        ok(answer)
    }
}

fn shown(name: &str, kept: &Kept) -> Value {
    json!({
        "id": kept.id, "name": name, "metadata": kept.metadata, "dimension": kept.dimension,
        "configuration_json": {"hnsw": {"space": kept.space}, "spann": null},
        "tenant": "default_tenant", "database": "default_database", "log_position": 0, "version": 0,
    })
}

impl Kept {
    fn act(&mut self, method: &str, what: &str, body: &Value) -> Answer {
        match (method, what) {
            ("PUT", "") => {
                self.metadata = body["new_metadata"].clone();
                ok(json!({}))
            }
            ("GET", "count") => ok(self.records.len().into()),
            ("POST", "upsert") => self.upsert(body),
            ("POST", "get") => self.get(body),
            ("POST", "query") => self.query(body),
            ("POST", "delete") => self.delete(body),
            _ => error(404, "NotFoundError", what),
        }
    }

    fn upsert(&mut self, body: &Value) -> Answer {
        let vectors = body["embeddings"].as_array().expect("vectors");
        let numbers = |vector: &Value| -> Vec<f64> {
            vector.as_array().expect("a vector").iter().filter_map(Value::as_f64).collect()
        };
        let vectors: Vec<Vec<f64>> = vectors.iter().map(numbers).collect();
        let dimension = self.dimension.unwrap_or(vectors[0].len());
        if let Some(wrong) = vectors.iter().find(|vector| vector.len() != dimension) {
            let message =
                format!("Collection expecting embedding with dimension of {dimension}, got {}", wrong.len());
            return error(400, "InvalidArgumentError", &message);
        }
        if vectors.len() > 7 {
            return error(413, "TooLarge", "too many records");
        }
        self.dimension = Some(dimension);
        for (at, vector) in vectors.into_iter().enumerate() {
            let id = body["ids"][at].as_str().expect("an id").to_owned();
            let document = body["documents"][at].as_str().expect("a text").to_owned();
            let old = self.records.get(&id).map(|old| old.metadata.clone());
            let mut metadata = old.unwrap_or_default();
            for (key, value) in body["metadatas"][at].as_object().expect("metadata") {
                match value {
                    Value::Null => drop(metadata.remove(key)),
                    value => drop(metadata.insert(key.clone(), value.clone())),
                }
            }
            self.records.insert(id, Stored { document, metadata, vector });
        }
        ok(json!({}))
    }

    fn chosen(&self, body: &Value) -> Result<Vec<(&String, &Stored)>, Answer> {
        let ids = body["ids"].as_array();
        let by_id = |id: &str| ids.is_none_or(|ids| ids.iter().any(|one| one == id));
        let mut chosen = Vec::new();
        for (id, stored) in self.records.iter().filter(|(id, _)| by_id(id)) {
            let fits = body.get("where").map_or(Ok(true), |filter| fits(filter, &stored.metadata));
            if fits.map_err(|why| error(400, "InvalidArgumentError", &why))? {
                chosen.push((id, stored));
            }
        }
        Ok(chosen)
    }

    fn get(&self, body: &Value) -> Answer {
        let chosen = match self.chosen(body) {
            Ok(chosen) => chosen,
            Err(refused) => return refused,
        };
        let limit = body["limit"].as_u64().map_or(usize::MAX, |limit| usize::try_from(limit).expect("small"));
        let chosen: Vec<_> = chosen.into_iter().take(limit).collect();
        let has = |what: &str| body["include"].as_array().expect("a list").iter().any(|one| one == what);
        let ids: Vec<_> = chosen.iter().map(|(id, _)| id).collect();
        let documents: Vec<_> = chosen.iter().map(|(_, stored)| &stored.document).collect();
        let metadatas: Vec<_> = chosen.iter().map(|(_, stored)| &stored.metadata).collect();
        ok(json!({
            "ids": ids, "embeddings": null, "uris": null,
            "documents": has("documents").then_some(documents),
            "metadatas": has("metadatas").then_some(metadatas),
        }))
    }

    fn query(&self, body: &Value) -> Answer {
        let asked: Vec<f64> = body["query_embeddings"][0]
            .as_array()
            .expect("a vector")
            .iter()
            .filter_map(Value::as_f64)
            .collect();
        if self.dimension.is_some_and(|dimension| dimension != asked.len()) {
            let message = format!(
                "Collection expecting embedding with dimension of {}, got {}",
                self.dimension.unwrap_or_default(),
                asked.len()
            );
            return error(400, "InvalidArgumentError", &message);
        }
        let chosen = match self.chosen(body) {
            Ok(chosen) => chosen,
            Err(refused) => return refused,
        };
        let mut near: Vec<_> =
            chosen.into_iter().map(|(id, stored)| (distance(&asked, &stored.vector), id, stored)).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        near.truncate(usize::try_from(body["n_results"].as_u64().expect("a number")).expect("small"));
        let ids: Vec<_> = near.iter().map(|(_, id, _)| id).collect();
        let distances: Vec<_> = near.iter().map(|(distance, _, _)| distance).collect();
        ok(json!({"ids": [ids], "distances": [distances]}))
    }

    fn delete(&mut self, body: &Value) -> Answer {
        let chosen = match self.chosen(body) {
            Ok(chosen) => chosen.into_iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(),
            Err(refused) => return refused,
        };
        self.records.retain(|id, _| !chosen.contains(id));
        // By ids it counts what was asked for.
        let deleted = body["ids"].as_array().map_or(chosen.len(), Vec::len);
        ok(json!({"deleted": deleted}))
    }
}

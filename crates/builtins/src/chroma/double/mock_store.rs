//! One collection of the fake Chroma for tests, with its operations on records.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub(super) type Answer = (StatusCode, Value);

/// One record.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub document: String,
    pub metadata: Map<String, Value>,
    pub vector: Vec<f64>,
}

#[derive(Debug, Clone)]
pub(super) struct StoredCollection {
    pub id: Uuid,
    pub metadata: Value,
    pub space: String,
    pub dimension: Option<usize>,
    pub records: BTreeMap<String, Stored>,
}

pub(super) fn error(status: u16, kind: &str, message: &str) -> Answer {
    let status = StatusCode::from_u16(status).expect("a status");
    (status, json!({"error": kind, "message": message}))
}

pub(super) fn ok(answer: Value) -> Answer {
    (StatusCode::OK, answer)
}

pub(super) fn shown(name: &str, kept: &StoredCollection) -> Value {
    json!({
        "id": kept.id, "name": name, "metadata": kept.metadata, "dimension": kept.dimension,
        "configuration_json": {"hnsw": {"space": kept.space}, "spann": null},
        "tenant": "default_tenant", "database": "default_database", "log_position": 0, "version": 0,
    })
}

impl StoredCollection {
    pub(super) fn act(&mut self, method: &str, what: &str, body: &Value) -> Answer {
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
            // Text and metadata are optional.
            let document = body["documents"][at].as_str().unwrap_or_default().to_owned();
            let old = self.records.get(&id).map(|old| old.metadata.clone());
            let mut metadata = old.unwrap_or_default();
            for (key, value) in body["metadatas"][at].as_object().into_iter().flatten() {
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
        let offset = usize::try_from(body["offset"].as_u64().unwrap_or_default()).expect("small");
        let chosen: Vec<_> = chosen.into_iter().skip(offset).take(limit).collect();
        let has = |what: &str| body["include"].as_array().expect("a list").iter().any(|one| one == what);
        let ids: Vec<_> = chosen.iter().map(|(id, _)| id).collect();
        let documents: Vec<_> = chosen.iter().map(|(_, stored)| &stored.document).collect();
        let metadatas: Vec<_> = chosen.iter().map(|(_, stored)| &stored.metadata).collect();
        let vectors: Vec<_> = chosen.iter().map(|(_, stored)| &stored.vector).collect();
        ok(json!({
            "ids": ids, "embeddings": has("embeddings").then_some(vectors), "uris": null,
            "documents": has("documents").then_some(documents),
            "metadatas": has("metadatas").then_some(metadatas),
        }))
    }

    fn query(&self, body: &Value) -> Answer {
        let requested: Vec<f64> = body["query_embeddings"][0]
            .as_array()
            .expect("a vector")
            .iter()
            .filter_map(Value::as_f64)
            .collect();
        if self.dimension.is_some_and(|dimension| dimension != requested.len()) {
            let message = format!(
                "Collection expecting embedding with dimension of {}, got {}",
                self.dimension.unwrap_or_default(),
                requested.len()
            );
            return error(400, "InvalidArgumentError", &message);
        }
        let asked_ids = body["ids"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if asked_ids.into_iter().any(|id| !self.records.contains_key(id)) {
            return error(500, "InternalError", "Error executing plan: Internal error: Error finding id");
        }
        let chosen = match self.chosen(body) {
            Ok(chosen) => chosen,
            Err(refused) => return refused,
        };
        let mut near: Vec<_> = chosen
            .into_iter()
            .map(|(id, stored)| (distance(&requested, &stored.vector), id, stored))
            .collect();
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
        // Deletion by ids returns the number of requested ids.
        let deleted = body["ids"].as_array().map_or(chosen.len(), Vec::len);
        ok(json!({"deleted": deleted}))
    }
}

/// Returns the cosine distance.
fn distance(one: &[f64], other: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    1.0 - dot(one, other) / (dot(one, one) * dot(other, other)).sqrt().max(1e-9)
}

/// Whether `metadata` fit `filter`. Fails if Chroma would call the filter invalid.
fn fits(filter: &Value, metadata: &Map<String, Value>) -> Result<bool, String> {
    let invalid = || format!("Invalid where clause: {filter}");
    let (key, value) = filter
        .as_object()
        .filter(|one| one.len() == 1)
        .and_then(|one| one.iter().next())
        .ok_or_else(invalid)?;
    if let "$and" | "$or" = key.as_str() {
        let parts = value.as_array().filter(|parts| parts.len() > 1).ok_or_else(invalid)?;
        let fit = parts.iter().map(|part| fits(part, metadata)).collect::<Result<Vec<_>, _>>()?;
        return Ok(if key == "$and" { fit.iter().all(|fit| *fit) } else { fit.contains(&true) });
    }
    let (operator, operand) = value
        .as_object()
        .filter(|one| one.len() == 1)
        .and_then(|one| one.iter().next())
        .ok_or_else(invalid)?;
    let own = metadata.get(key);
    let compared = own.and_then(Value::as_f64).zip(operand.as_f64());
    let listed = || operand.as_array().ok_or_else(invalid);
    let holds = || own.and_then(Value::as_array).is_some_and(|own| own.contains(operand));
    Ok(match operator.as_str() {
        "$eq" => own == Some(operand),
        "$ne" => own != Some(operand),
        "$gt" => compared.is_some_and(|(a, b)| a > b),
        "$gte" => compared.is_some_and(|(a, b)| a >= b),
        "$lt" => compared.is_some_and(|(a, b)| a < b),
        "$lte" => compared.is_some_and(|(a, b)| a <= b),
        "$in" => own.is_some_and(|own| listed().is_ok_and(|all| all.contains(own))),
        "$nin" => !listed()?.iter().any(|one| Some(one) == own),
        "$contains" => holds(),
        "$not_contains" => !holds(),
        _ => return Err(invalid()),
    })
}

//! Records that are a vector and nothing else, for whoever keeps texts elsewhere (the handbook).
//!
//! Facts of Chroma that stand behind it: records need neither text nor metadata; `get` leaves out ids that are
//! not there, while a `query` among ids fails as a whole (500) when one of them is not; what is nearest is
//! approximate, and exact where few ids are asked for.
//!
//! Invariant: what comes back has as many parts as it says, or the record is left out; whether numbers are
//! vectors, whoever asks decides.

use http::Method;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Chroma;
use upstream::api::Error;

/// A vector under its id.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector {
    /// Its id.
    pub id: String,
    /// The vector.
    pub numbers: Vec<f32>,
}

/// How far a record is from what was searched for.
#[derive(Debug, Clone, PartialEq)]
pub struct Distant {
    /// Its id.
    pub id: String,
    /// How far it is, as the space of the collection measures.
    pub distance: f64,
}

#[derive(Serialize)]
struct Wanted<'a> {
    query_embeddings: [&'a [f32]; 1],
    n_results: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<&'a [String]>,
    include: [&'static str; 1],
}

/// An answer of `query`: a list for each vector that was asked with.
#[derive(Deserialize)]
struct Found {
    ids: Vec<Vec<String>>,
    distances: Option<Vec<Vec<Option<f64>>>>,
}

#[derive(Serialize)]
struct Known<'a> {
    ids: &'a [String],
    include: [&'static str; 1],
}

#[derive(Deserialize)]
struct Got {
    ids: Vec<String>,
    embeddings: Option<Vec<Option<Vec<f32>>>>,
}

impl Chroma {
    /// The `limit` records nearest to `vector`, the nearest first; only those of `ids` if there are some.
    pub async fn nearest(
        &self,
        collection: Uuid,
        vector: &[f32],
        limit: usize,
        ids: Option<&[String]>,
    ) -> Result<Vec<Distant>, Error> {
        let body = Wanted { query_embeddings: [vector], n_results: limit, ids, include: ["distances"] };
        let found: Found =
            self.of(Method::POST, collection, "query").json(&body).send().await?.json().await?;
        let ids = found.ids.into_iter().next().unwrap_or_default();
        let distances = found.distances.and_then(|lists| lists.into_iter().next()).unwrap_or_default();
        let all = ids.into_iter().zip(distances);
        Ok(all.filter_map(|(id, distance)| Some(Distant { id, distance: distance? })).take(limit).collect())
    }

    /// The vectors of these ids; what is not there is left out.
    pub async fn vectors(&self, collection: Uuid, ids: &[String]) -> Result<Vec<Vector>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let body = Known { ids, include: ["embeddings"] };
        let got: Got = self.of(Method::POST, collection, "get").json(&body).send().await?.json().await?;
        let all = got.ids.into_iter().zip(got.embeddings.unwrap_or_default());
        let vector = |(id, numbers): (String, Option<Vec<f32>>)| Some(Vector { id, numbers: numbers? });
        Ok(all.filter_map(vector).take(ids.len()).collect())
    }
}

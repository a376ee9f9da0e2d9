//! Records that consist of a vector, for callers that store the texts elsewhere (the handbook).
//!
//! Behavior of Chroma that this code relies on: records need neither text nor metadata. `get` leaves out
//! missing ids. A `query` among ids fails as a whole with 500 if one of them is missing. The nearest records
//! are approximate, and exact among few ids.
//!
//! Invariant: an incomplete record is left out of the result. The caller checks whether the numbers form a
//! vector.

use http::Method;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ChromaClient;
use upstream::api::Error;

/// A vector under its id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Vector {
    /// Its id.
    pub id: String,
    /// The vector.
    pub numbers: Vec<f32>,
}

/// The distance of a record from the vector of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Distant {
    /// Its id.
    pub id: String,
    /// The distance, in the metric of the collection.
    pub distance: f64,
}

#[derive(Serialize)]
struct DistancesRequest<'a> {
    query_embeddings: [&'a [f32]; 1],
    n_results: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<&'a [String]>,
    include: [&'static str; 1],
}

/// The response to `query`: one list for each vector of the request.
#[derive(Deserialize)]
struct DistancesResponse {
    ids: Vec<Vec<String>>,
    distances: Option<Vec<Vec<Option<f64>>>>,
}

#[derive(Serialize)]
struct VectorsRequest<'a> {
    ids: &'a [String],
    include: [&'static str; 1],
}

#[derive(Deserialize)]
struct VectorsResponse {
    ids: Vec<String>,
    embeddings: Option<Vec<Option<Vec<f32>>>>,
}

impl ChromaClient {
    /// Returns the `limit` records nearest to `vector`, the nearest first. If `ids` are given, only those
    /// count.
    pub(crate) async fn nearest(
        &self,
        collection: Uuid,
        vector: &[f32],
        limit: usize,
        ids: Option<&[String]>,
    ) -> Result<Vec<Distant>, Error> {
        let body =
            DistancesRequest { query_embeddings: [vector], n_results: limit, ids, include: ["distances"] };
        let found: DistancesResponse =
            self.of(Method::POST, collection, "query").json(&body).send().await?.json().await?;
        let ids = found.ids.into_iter().next().unwrap_or_default();
        let distances = found.distances.and_then(|lists| lists.into_iter().next()).unwrap_or_default();
        let all = ids.into_iter().zip(distances);
        Ok(all.filter_map(|(id, distance)| Some(Distant { id, distance: distance? })).take(limit).collect())
    }

    /// Returns the vectors with these ids. Missing ones are left out.
    pub(crate) async fn vectors(&self, collection: Uuid, ids: &[String]) -> Result<Vec<Vector>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let body = VectorsRequest { ids, include: ["embeddings"] };
        let got: VectorsResponse =
            self.of(Method::POST, collection, "get").json(&body).send().await?.json().await?;
        let all = got.ids.into_iter().zip(got.embeddings.unwrap_or_default());
        let vector = |(id, numbers): (String, Option<Vec<f32>>)| Some(Vector { id, numbers: numbers? });
        Ok(all.filter_map(vector).take(ids.len()).collect())
    }
}

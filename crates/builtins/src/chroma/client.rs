//! Requests to one database of a Chroma server.
//!
//! Behavior of Chroma that this code relies on:
//! - Get and delete of a collection need its name. All other requests need its id.
//! - Missing records are silently left out or ignored, so a caller that needs to know checks first.
//! - `add` does nothing for an existing id, so records are always upserted. An upsert merges the metadata
//!   with the existing ones. A key is removed only if it is sent as `null`.
//! - A list in the metadata of a collection makes the server close the connection.

use http::{HeaderName, Method};
use secrecy::SecretString;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use url::Url;
use uuid::Uuid;

use super::model::{Collection, Hit, Metadata, Records, Select, Space, VectorQuery};
use crate::rest::{Rest, RestRequest};
use upstream::api::{Error, ServerContext};

/// Most records in one request, if the server does not say.
const USUAL_BATCH: usize = 1_000;
/// Chroma Cloud takes its key in this header.
static CLOUD_TOKEN: HeaderName = HeaderName::from_static("x-chroma-token");

/// The address of a database. It has no `Debug`, because any part of a URL may be a secret.
#[derive(Clone)]
pub(crate) struct DatabaseAddress {
    /// The server, without `/api/v2`.
    pub url: Url,
    /// The tenant.
    pub tenant: String,
    /// The database of the tenant.
    pub database: String,
    /// The credential, if the server requires one.
    pub token: Option<ChromaToken>,
}

impl DatabaseAddress {
    /// The default database, which every server has.
    pub(crate) fn usual(url: Url) -> Self {
        Self { url, tenant: "default_tenant".into(), database: "default_database".into(), token: None }
    }
}

/// A credential. A self-hosted server requires none. A proxy in front of it or Chroma Cloud may.
#[derive(Debug, Clone)]
pub(crate) enum ChromaToken {
    /// `Authorization: Bearer …`.
    Bearer(SecretString),
    /// `x-chroma-token: …`.
    Cloud(SecretString),
}

/// A client for one database.
pub(crate) struct ChromaClient {
    rest: Rest,
    place: DatabaseAddress,
    most_records: OnceCell<usize>,
}

#[derive(Deserialize)]
struct PreFlightChecks {
    max_batch_size: usize,
}

#[derive(Deserialize)]
struct DeleteResponse {
    deleted: u64,
}

#[derive(Serialize)]
struct Creation<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    configuration: Value,
}

/// The vector is not a `Value`, because that would print each number as a double.
#[derive(Serialize)]
struct QueryRequest<'a> {
    query_embeddings: [&'a [f32]; 1],
    n_results: usize,
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    filter: Option<&'a Value>,
    include: [&'static str; 3],
}

/// The response to `get`. Each list is as long as the ids.
#[derive(Deserialize)]
struct GetResponse {
    ids: Vec<String>,
    documents: Option<Vec<Option<String>>>,
    metadatas: Option<Vec<Option<Metadata>>>,
}

/// The response to `query`: one list for each vector of the request.
#[derive(Deserialize)]
struct QueryResponse {
    ids: Vec<Vec<String>>,
    documents: Option<Vec<Vec<Option<String>>>>,
    metadatas: Option<Vec<Vec<Option<Metadata>>>>,
    distances: Option<Vec<Vec<Option<f64>>>>,
}

impl ChromaClient {
    /// The database at `place`. Nothing is sent yet.
    pub(crate) fn new(place: &DatabaseAddress, server_context: &ServerContext) -> Result<Self, Error> {
        let rest = Rest::new(&place.url, server_context)?;
        Ok(Self { rest, place: place.clone(), most_records: OnceCell::new() })
    }

    /// Checks that the server can be reached and has the database.
    pub(crate) async fn health(&self) -> Result<(), Error> {
        let path = ["api", "v2", "tenants", &self.place.tenant, "databases", &self.place.database];
        let answer = self.to(Method::GET, &path).send().await.map_err(|error| match error {
            Error::Backend { status: 404 | 405, .. } => error.reworded(|text| {
                format!("{text}; check `url`, which does not contain /api/v2, `tenant` and `database`")
            }),
            other => other,
        })?;
        answer.json::<IgnoredAny>().await.map(drop)
    }

    /// Creates the tenant and the database, unless they exist.
    pub(crate) async fn make_database(&self) -> Result<(), Error> {
        let DatabaseAddress { tenant, database, .. } = &self.place;
        let databases = ["api", "v2", "tenants", tenant, "databases"];
        for (path, name) in [(&databases[..3], tenant), (&databases[..], database)] {
            let made = self.to(Method::POST, path).json(&json!({"name": name})).send().await;
            match made {
                Ok(answer) => drop(answer.bytes().await?),
                Err(Error::Backend { status: 409, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the number of records that one request may have.
    pub(crate) async fn most_records(&self) -> Result<usize, Error> {
        let ask = || async {
            let limits: PreFlightChecks =
                self.to(Method::GET, &["api", "v2", "pre-flight-checks"]).send().await?.json().await?;
            Ok(if limits.max_batch_size == 0 { USUAL_BATCH } else { limits.max_batch_size })
        };
        self.most_records.get_or_try_init(ask).await.copied()
    }

    /// Returns collections in the order of the server.
    pub(crate) async fn collections(&self, limit: usize, offset: usize) -> Result<Vec<Collection>, Error> {
        let (limit, offset) = (limit.to_string(), offset.to_string());
        let request = self.below(Method::GET, &[]);
        request.query(&[("limit", &limit), ("offset", &offset)]).send().await?.json().await
    }

    /// Returns the collection `name`, if there is one.
    pub(crate) async fn collection(&self, name: &str) -> Result<Option<Collection>, Error> {
        let answer = match self.below(Method::GET, &[name]).send().await {
            Ok(answer) => answer,
            Err(error) => return missing(error).map(|()| None),
        };
        answer.json().await.map(Some)
    }

    /// Creates the collection `name`, which compares by angle. If it exists, Chroma refuses with 409.
    pub(crate) async fn create(&self, name: &str, metadata: Option<&Metadata>) -> Result<Collection, Error> {
        let configuration = json!({"hnsw": {"space": Space::Cosine}});
        // Chroma refuses empty metadata.
        let metadata = metadata.filter(|metadata| !metadata.is_empty());
        let body = Creation { name, metadata, configuration };
        self.below(Method::POST, &[]).json(&body).send().await?.json().await
    }

    /// Deletes the collection `name` with its records. Returns false if there is none.
    pub(crate) async fn drop_collection(&self, name: &str) -> Result<bool, Error> {
        match self.below(Method::DELETE, &[name]).send().await {
            Ok(answer) => answer.bytes().await.map(|_| true),
            Err(error) => missing(error).map(|()| false),
        }
    }

    /// Replaces the metadata of a collection.
    pub(crate) async fn describe(&self, collection: Uuid, metadata: &Metadata) -> Result<(), Error> {
        let path = collection.to_string();
        let body = json!({"new_metadata": metadata});
        self.below(Method::PUT, &[path.as_str()]).json(&body).send().await?.bytes().await.map(drop)
    }

    /// Counts the records of a collection.
    pub(crate) async fn count(&self, collection: Uuid) -> Result<u64, Error> {
        self.of(Method::GET, collection, "count").send().await?.json().await
    }

    /// Stores all records or none. A record replaces an existing one with the same id.
    pub(crate) async fn upsert(&self, collection: Uuid, records: &Records) -> Result<(), Error> {
        self.of(Method::POST, collection, "upsert").json(records).send().await?.bytes().await.map(drop)
    }

    /// Returns the metadata of the records that `select` describes, without their texts.
    pub(crate) async fn marks(&self, collection: Uuid, select: &Select) -> Result<Vec<Hit>, Error> {
        self.got(collection, &Including { what: select, include: &["metadatas"] }).await
    }

    /// Returns the ids of the records that `select` describes.
    pub(crate) async fn ids(&self, collection: Uuid, select: &Select) -> Result<Vec<String>, Error> {
        let body = Including { what: select, include: &[] };
        Ok(self.got(collection, &body).await?.into_iter().map(|hit| hit.id).collect())
    }

    async fn got(&self, collection: Uuid, body: &Including<'_, Select>) -> Result<Vec<Hit>, Error> {
        let got: GetResponse =
            self.of(Method::POST, collection, "get").json(body).send().await?.json().await?;
        Ok(hits(got.ids, got.documents, got.metadatas, None))
    }

    /// Returns the records nearest to a vector, the nearest first.
    pub(crate) async fn query(&self, collection: Uuid, query: &VectorQuery) -> Result<Vec<Hit>, Error> {
        let body = QueryRequest {
            query_embeddings: [&query.vector],
            n_results: query.limit,
            filter: query.filter.as_ref(),
            include: ["documents", "metadatas", "distances"],
        };
        let found: QueryResponse =
            self.of(Method::POST, collection, "query").json(&body).send().await?.json().await?;
        let distances = first(found.distances);
        let ids = found.ids.into_iter().next().unwrap_or_default();
        Ok(hits(ids, first(found.documents), first(found.metadatas), distances))
    }

    /// Deletes the records with these ids. Missing ones are ignored.
    pub(crate) async fn delete(&self, collection: Uuid, ids: &[String]) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(()); // Chroma would refuse it
        }
        self.of(Method::POST, collection, "delete")
            .json(&json!({"ids": ids}))
            .send()
            .await?
            .bytes()
            .await
            .map(drop)
    }

    /// Deletes the records that match `filter`, see [`super::filter`]. Returns their number.
    pub(crate) async fn delete_where(&self, collection: Uuid, filter: &Value) -> Result<u64, Error> {
        let body = json!({"where": filter});
        let gone: DeleteResponse =
            self.of(Method::POST, collection, "delete").json(&body).send().await?.json().await?;
        Ok(gone.deleted)
    }

    /// Returns a request for `path` below the collections.
    fn below(&self, method: Method, path: &[&str]) -> RestRequest {
        let DatabaseAddress { tenant, database, .. } = &self.place;
        let mut whole = vec!["api", "v2", "tenants", tenant, "databases", database, "collections"];
        whole.extend(path);
        self.to(method, &whole)
    }

    /// Returns a request about the records of a collection.
    pub(super) fn of(&self, method: Method, collection: Uuid, what: &str) -> RestRequest {
        let id = collection.to_string();
        self.below(method, &[id.as_str(), what])
    }

    fn to(&self, method: Method, path: &[&str]) -> RestRequest {
        let request = self.rest.request(method, path);
        match &self.place.token {
            None => request,
            Some(ChromaToken::Bearer(token)) => request.bearer(token),
            Some(ChromaToken::Cloud(token)) => request.header(&CLOUD_TOKEN, token),
        }
    }
}

#[derive(Serialize)]
struct Including<'a, T> {
    #[serde(flatten)]
    what: &'a T,
    include: &'a [&'static str],
}

/// Accepts 404, which says that the object is missing.
fn missing(error: Error) -> Result<(), Error> {
    match error {
        Error::Backend { status: 404, .. } => Ok(()),
        other => Err(other),
    }
}

fn first<T>(lists: Option<Vec<Vec<T>>>) -> Option<Vec<T>> {
    lists.and_then(|lists| lists.into_iter().next())
}

/// Makes one hit for each id, with the values of the other lists.
fn hits(
    ids: Vec<String>,
    documents: Option<Vec<Option<String>>>,
    metadatas: Option<Vec<Option<Metadata>>>,
    distances: Option<Vec<Option<f64>>>,
) -> Vec<Hit> {
    let (mut documents, mut metadatas) = (documents.into_iter().flatten(), metadatas.into_iter().flatten());
    let mut distances = distances.into_iter().flatten();
    let hit = |id| Hit {
        id,
        document: documents.next().flatten(),
        metadata: metadatas.next().flatten().unwrap_or_default(),
        distance: distances.next().flatten(),
    };
    ids.into_iter().map(hit).collect()
}

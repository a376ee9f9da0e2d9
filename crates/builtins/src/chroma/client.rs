//! Requests to one database of a Chroma server.
//!
//! Facts of it that stand behind what is done here: get and delete of a collection want its name,
//! everything else its id; what is missing is left out or ignored without a word, so whoever needs to
//! know asks first; `add` of an id that is there does nothing, so records are always upserted, and that
//! merges metadata with those that are there: a key goes only when it is sent as `null`; a list in the
//! metadata of a collection makes the server hang up.

use http::{HeaderName, Method};
use secrecy::SecretString;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use url::Url;
use uuid::Uuid;

use super::model::{Collection, Hit, Metadata, Query, Records, Select, Space};
use crate::rest::{Request, Rest};
use runtime::shutdown::Shutdown;
use upstream::api::Error;

/// Records in one request when the server does not say.
const USUAL_BATCH: usize = 1_000;
/// Chroma Cloud takes its key in this header.
static CLOUD_TOKEN: HeaderName = HeaderName::from_static("x-chroma-token");

/// Where a database is. Without `Debug`: any part of a URL may be a secret.
#[derive(Clone)]
pub struct Place {
    /// The server, without `/api/v2`.
    pub url: Url,
    /// Whose.
    pub tenant: String,
    /// Which.
    pub database: String,
    /// Who we are there.
    pub token: Option<Token>,
}

impl Place {
    /// The database that every server has.
    pub fn usual(url: Url) -> Self {
        Self { url, tenant: "default_tenant".into(), database: "default_database".into(), token: None }
    }
}

/// Who we are. A server of one's own asks nobody; a proxy before it or Chroma Cloud may.
#[derive(Debug, Clone)]
pub enum Token {
    /// `Authorization: Bearer …`.
    Bearer(SecretString),
    /// `x-chroma-token: …`.
    Cloud(SecretString),
}

/// One database.
pub struct Chroma {
    rest: Rest,
    place: Place,
    most_records: OnceCell<usize>,
}

#[derive(Deserialize)]
struct Limits {
    max_batch_size: usize,
}

#[derive(Deserialize)]
struct Gone {
    deleted: u64,
}

#[derive(Serialize)]
struct Creation<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    configuration: Value,
}

/// Not a `Value`, which would print each number as the double that it is not.
#[derive(Serialize)]
struct Asked<'a> {
    query_embeddings: [&'a [f32]; 1],
    n_results: usize,
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    filter: Option<&'a Value>,
    include: [&'static str; 3],
}

/// An answer of `get`; each list is as long as the ids.
#[derive(Deserialize)]
struct Got {
    ids: Vec<String>,
    documents: Option<Vec<Option<String>>>,
    metadatas: Option<Vec<Option<Metadata>>>,
}

/// An answer of `query`: a list for each vector that was asked with.
#[derive(Deserialize)]
struct Found {
    ids: Vec<Vec<String>>,
    documents: Option<Vec<Vec<Option<String>>>>,
    metadatas: Option<Vec<Vec<Option<Metadata>>>>,
    distances: Option<Vec<Vec<Option<f64>>>>,
}

impl Chroma {
    /// The database at `place`; nothing is sent yet.
    pub fn new(place: &Place, shutdown: &Shutdown) -> Result<Self, Error> {
        let rest = Rest::new(&place.url, shutdown)?;
        Ok(Self { rest, place: place.clone(), most_records: OnceCell::new() })
    }

    /// Whether the server is there and has the database.
    pub async fn health(&self) -> Result<(), Error> {
        let path = ["api", "v2", "tenants", &self.place.tenant, "databases", &self.place.database];
        self.to(Method::GET, &path).send().await?.json::<IgnoredAny>().await.map(drop)
    }

    /// Makes the tenant and the database; one that is there is left alone.
    pub async fn make_database(&self) -> Result<(), Error> {
        let Place { tenant, database, .. } = &self.place;
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

    /// How many records one request may have.
    pub async fn most_records(&self) -> Result<usize, Error> {
        let ask = || async {
            let limits: Limits =
                self.to(Method::GET, &["api", "v2", "pre-flight-checks"]).send().await?.json().await?;
            Ok(if limits.max_batch_size == 0 { USUAL_BATCH } else { limits.max_batch_size })
        };
        self.most_records.get_or_try_init(ask).await.copied()
    }

    /// Collections, in the order of the server.
    pub async fn collections(&self, limit: usize, offset: usize) -> Result<Vec<Collection>, Error> {
        let (limit, offset) = (limit.to_string(), offset.to_string());
        let request = self.below(Method::GET, &[]);
        request.query(&[("limit", &limit), ("offset", &offset)]).send().await?.json().await
    }

    /// The collection `name`, if there is one.
    pub async fn collection(&self, name: &str) -> Result<Option<Collection>, Error> {
        let answer = match self.below(Method::GET, &[name]).send().await {
            Ok(answer) => answer,
            Err(error) => return missing(error).map(|()| None),
        };
        answer.json().await.map(Some)
    }

    /// Makes the collection `name`, compared by angle; one that is there is a refusal (409).
    pub async fn create(&self, name: &str, metadata: Option<&Metadata>) -> Result<Collection, Error> {
        let configuration = json!({"hnsw": {"space": Space::Cosine}});
        // Chroma refuses metadata that are empty.
        let metadata = metadata.filter(|metadata| !metadata.is_empty());
        let body = Creation { name, metadata, configuration };
        self.below(Method::POST, &[]).json(&body).send().await?.json().await
    }

    /// Drops the collection `name` with all that is in it; false when there is none.
    pub async fn drop_collection(&self, name: &str) -> Result<bool, Error> {
        match self.below(Method::DELETE, &[name]).send().await {
            Ok(answer) => answer.bytes().await.map(|_| true),
            Err(error) => missing(error).map(|()| false),
        }
    }

    /// Says something else of a collection than before.
    pub async fn describe(&self, collection: Uuid, metadata: &Metadata) -> Result<(), Error> {
        let path = collection.to_string();
        let body = json!({"new_metadata": metadata});
        self.below(Method::PUT, &[path.as_str()]).json(&body).send().await?.bytes().await.map(drop)
    }

    /// Records in a collection.
    pub async fn count(&self, collection: Uuid) -> Result<u64, Error> {
        self.of(Method::GET, collection, "count").send().await?.json().await
    }

    /// Stores records, each in the place of one of its id that is there. All of them, or none.
    pub async fn upsert(&self, collection: Uuid, records: &Records) -> Result<(), Error> {
        self.of(Method::POST, collection, "upsert").json(records).send().await?.bytes().await.map(drop)
    }

    /// The records that `select` means.
    pub async fn get(&self, collection: Uuid, select: &Select) -> Result<Vec<Hit>, Error> {
        let body = Including { what: select, include: &["documents", "metadatas"] };
        self.got(collection, &body).await
    }

    /// What is known of the records that `select` means, without their texts.
    pub async fn marks(&self, collection: Uuid, select: &Select) -> Result<Vec<Hit>, Error> {
        self.got(collection, &Including { what: select, include: &["metadatas"] }).await
    }

    /// The ids of the records that `select` means.
    pub async fn ids(&self, collection: Uuid, select: &Select) -> Result<Vec<String>, Error> {
        let body = Including { what: select, include: &[] };
        Ok(self.got(collection, &body).await?.into_iter().map(|hit| hit.id).collect())
    }

    async fn got(&self, collection: Uuid, body: &Including<'_, Select>) -> Result<Vec<Hit>, Error> {
        let got: Got = self.of(Method::POST, collection, "get").json(body).send().await?.json().await?;
        Ok(hits(got.ids, got.documents, got.metadatas, None))
    }

    /// The records nearest to a vector, the nearest first.
    pub async fn query(&self, collection: Uuid, query: &Query) -> Result<Vec<Hit>, Error> {
        let body = Asked {
            query_embeddings: [&query.vector],
            n_results: query.limit,
            filter: query.filter.as_ref(),
            include: ["documents", "metadatas", "distances"],
        };
        let found: Found =
            self.of(Method::POST, collection, "query").json(&body).send().await?.json().await?;
        let distances = first(found.distances);
        let ids = found.ids.into_iter().next().unwrap_or_default();
        Ok(hits(ids, first(found.documents), first(found.metadatas), distances))
    }

    /// Drops the records of these ids; what is not there is passed over.
    pub async fn delete(&self, collection: Uuid, ids: &[String]) -> Result<(), Error> {
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

    /// Drops the records that fit `filter`, see [`super::filter`]; gives how many.
    pub async fn delete_where(&self, collection: Uuid, filter: &Value) -> Result<u64, Error> {
        let body = json!({"where": filter});
        let gone: Gone = self.of(Method::POST, collection, "delete").json(&body).send().await?.json().await?;
        Ok(gone.deleted)
    }

    /// A request for what stands at `path` below the collections.
    fn below(&self, method: Method, path: &[&str]) -> Request {
        let Place { tenant, database, .. } = &self.place;
        let mut whole = vec!["api", "v2", "tenants", tenant, "databases", database, "collections"];
        whole.extend(path);
        self.to(method, &whole)
    }

    /// A request about the records of a collection.
    pub(super) fn of(&self, method: Method, collection: Uuid, what: &str) -> Request {
        let id = collection.to_string();
        self.below(method, &[id.as_str(), what])
    }

    fn to(&self, method: Method, path: &[&str]) -> Request {
        let request = self.rest.request(method, path);
        match &self.place.token {
            None => request,
            Some(Token::Bearer(token)) => request.bearer(token),
            Some(Token::Cloud(token)) => request.header(&CLOUD_TOKEN, token),
        }
    }
}

#[derive(Serialize)]
struct Including<'a, T> {
    #[serde(flatten)]
    what: &'a T,
    include: &'a [&'static str],
}

/// What is not there is no failure.
fn missing(error: Error) -> Result<(), Error> {
    match error {
        Error::Backend { status: 404, .. } => Ok(()),
        other => Err(other),
    }
}

fn first<T>(lists: Option<Vec<Vec<T>>>) -> Option<Vec<T>> {
    lists.and_then(|lists| lists.into_iter().next())
}

/// One hit for each id, with what the other lists have of it.
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

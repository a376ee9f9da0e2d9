//! The calls of R2R that ingesting needs.
//!
//! A trait lets tests run without a service. Nothing is repeated here.

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde::de::IgnoredAny;
use uuid::Uuid;

use crate::r2r::client::Client;
use crate::r2r::model::{R2rDocument, Results};
use net::http::Form;
use upstream::api::Error;

/// Makes the form of an upload. It is called again if the form has to be sent with a renewed token.
pub(super) type MakeForm<'a> = Box<dyn Fn() -> Form + Send + Sync + 'a>;

/// The requests to R2R that ingesting needs.
pub(super) trait R2rApi: Send + Sync + 'static {
    /// Returns the id of Switchyard's account.
    fn who(&self) -> BoxFuture<'_, Result<String, Error>>;

    /// Whether there is a collection `id` that Switchyard may use.
    fn has_collection(&self, id: Uuid) -> BoxFuture<'_, Result<bool, Error>>;

    /// Returns the document `id`, if there is one.
    fn document(&self, id: Uuid) -> BoxFuture<'_, Result<Option<R2rDocument>, Error>>;

    /// Returns the content of the document `id`, if R2R has it.
    fn content(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Bytes>, Error>>;

    /// Deletes the document `id`, which may be gone already.
    fn remove(&self, id: Uuid) -> BoxFuture<'_, Result<(), Error>>;

    /// Sends a document. R2R may answer only after the whole ingestion.
    fn create<'a>(&'a self, form: MakeForm<'a>) -> BoxFuture<'a, Result<(), Error>>;

    /// Adds a document to a collection, which may have it already.
    fn join(&self, collection: Uuid, id: Uuid) -> BoxFuture<'_, Result<(), Error>>;
}

/// An account. Its other members are not needed.
#[derive(Deserialize)]
struct Account {
    id: String,
}

impl R2rApi for Client {
    fn who(&self) -> BoxFuture<'_, Result<String, Error>> {
        async move {
            let answer = self.get::<Results<Account>>(&["users", "me"], &[]).await?;
            Ok(answer.results.id)
        }
        .boxed()
    }

    fn has_collection(&self, id: Uuid) -> BoxFuture<'_, Result<bool, Error>> {
        async move {
            let there = self.get::<IgnoredAny>(&["collections", &id.to_string()], &[]).await;
            // 403: the collection exists, but Switchyard may not use it.
            Ok(unless(there, &[403, 404])?.is_some())
        }
        .boxed()
    }

    fn document(&self, id: Uuid) -> BoxFuture<'_, Result<Option<R2rDocument>, Error>> {
        async move {
            let there = self.get::<Results<R2rDocument>>(&["documents", &id.to_string()], &[]).await;
            Ok(unless(there, &[404])?.map(|answer| answer.results))
        }
        .boxed()
    }

    fn content(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Bytes>, Error>> {
        async move {
            match self.bytes(&["documents", &id.to_string(), "download"]).await {
                Err(Error::TooLarge { .. }) => Ok(None),
                content => unless(content, &[403, 404, 405]),
            }
        }
        .boxed()
    }

    fn remove(&self, id: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            let gone = self.delete::<IgnoredAny>(&["documents", &id.to_string()]).await;
            unless(gone, &[404]).map(|_| ())
        }
        .boxed()
    }

    fn create<'a>(&'a self, form: MakeForm<'a>) -> BoxFuture<'a, Result<(), Error>> {
        async move { self.upload::<IgnoredAny>(&["documents"], form).await.map(|_| ()) }.boxed()
    }

    fn join(&self, collection: Uuid, id: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            let path = ["collections", &collection.to_string(), "documents", &id.to_string()];
            unless(self.post::<_, IgnoredAny>(&path, &()).await, &[409]).map(|_| ())
        }
        .boxed()
    }
}

/// Returns the answer, or none if R2R answered with one of `statuses`.
fn unless<T>(answer: Result<T, Error>, statuses: &[u16]) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Backend { status, .. }) if statuses.contains(&status) => Ok(None),
        Err(error) => Err(error),
    }
}

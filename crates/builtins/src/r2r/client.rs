//! R2R's REST API, as the tools use it: authenticated calls below `/v3`.
//!
//! Invariants: if R2R refuses the token, the call is repeated once with a new token. Nothing else is repeated
//! here. An error response of R2R is [`Error::Backend`].
//!
//! Not here: the login (`session`), and the meaning of the responses.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::Method;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::config::Pace;
use super::model::{R2rDocument, Results, VERSION};
use super::session::Session;
use crate::r2r::config;
use crate::rest::{Answer, Rest, RestRequest};
use net::http::Form;
use upstream::api::{Error, ServerContext};

/// An account. Its other members are not needed.
#[derive(Deserialize)]
struct Account {
    id: String,
}

/// One R2R service and the session there. Clones share both.
#[derive(Clone)]
pub(super) struct Client {
    rest: Rest,
    session: Arc<Session>,
    pace: Option<Pace>,
}

impl Client {
    /// Logs in, or checks that R2R accepts the key or requests without credentials. Returns
    /// [`Error::AuthFailed`] if R2R refuses them.
    pub(super) async fn open(
        options: &config::R2rOptions,
        server_context: &ServerContext,
    ) -> Result<Self, Error> {
        let rest = Rest::new(&options.url, server_context)?;
        let session =
            Session::open(rest.clone(), options.credentials.clone(), &server_context.shutdown).await?;
        Ok(Self { rest, session, pace: options.pace.clone() })
    }

    /// Reads the value at `path` with `query`. Each element of `path` is one segment.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, Error> {
        let answered =
            async { self.made(|| self.request(Method::GET, path).query(query)).await?.json().await };
        Box::pin(answered).await
    }

    /// Reads at most `limit` entries of a list from `offset` on, with `query` as further parameters.
    pub(super) async fn page<T: DeserializeOwned>(
        &self,
        path: &[&str],
        (offset, limit): (u64, u64),
        query: &[(&str, &str)],
    ) -> Result<Results<Vec<T>>, Error> {
        let page = |offset: u64, limit: u64| async move {
            let (offset, limit) = (offset.to_string(), limit.to_string());
            let all = [&[("offset", offset.as_str()), ("limit", &limit)], query].concat();
            self.get::<Results<Vec<T>>>(path, &all).await
        };
        let mut found = page(offset, limit).await?;
        // For an offset after the end of a list, R2R says that the list has no entries.
        if found.results.is_empty() && offset > 0 {
            found.total_entries = page(0, 1).await?.total_entries;
        }
        Ok(found)
    }

    /// Sends `body` as JSON.
    pub(super) async fn post<B: Serialize + Sync + ?Sized, T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &B,
    ) -> Result<T, Error> {
        let answered = async { self.answer(path, body).await?.json().await };
        Box::pin(answered).await
    }

    /// Deletes the object at `path`.
    pub(super) async fn delete<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Error> {
        self.made(|| self.request(Method::DELETE, path)).await?.json().await
    }

    /// Sends a form with files. `form` is called again if the token had to be renewed.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        path: &[&str],
        form: impl Fn() -> Form + Sync,
    ) -> Result<T, Error> {
        self.made(|| self.request(Method::POST, path).multipart(form())).await?.json().await
    }

    /// Sends `body` as JSON, and returns the answer, which may be a stream of events. If R2R gives up, the stream just
    /// ends. The last event says whether it was complete.
    pub(super) async fn answer<B: Serialize + Sync + ?Sized>(
        &self,
        path: &[&str],
        body: &B,
    ) -> Result<Answer, Error> {
        Box::pin(self.made(|| self.request(Method::POST, path).json(body))).await
    }

    /// Returns the id of Switchyard's account.
    pub(super) async fn account(&self) -> Result<String, Error> {
        Ok(self.get::<Results<Account>>(&["users", "me"], &[]).await?.results.id)
    }

    /// Whether there is a collection `id` that Switchyard may use.
    pub(super) async fn has_collection(&self, id: Uuid) -> Result<bool, Error> {
        let there = self.get::<IgnoredAny>(&["collections", &id.to_string()], &[]).await;
        // 403: the collection exists, but Switchyard may not use it.
        Ok(unless(there, &[403, 404])?.is_some())
    }

    /// Returns the document `id`, if there is one.
    pub(super) async fn document(&self, id: Uuid) -> Result<Option<R2rDocument>, Error> {
        let there = self.get::<Results<R2rDocument>>(&["documents", &id.to_string()], &[]).await;
        Ok(unless(there, &[404])?.map(|answer| answer.results))
    }

    /// Deletes the document `id`, which may be gone already.
    pub(super) async fn remove(&self, id: Uuid) -> Result<(), Error> {
        let gone = self.delete::<IgnoredAny>(&["documents", &id.to_string()]).await;
        unless(gone, &[404]).map(drop)
    }

    /// Adds a document to a collection, which may have it already.
    pub(super) async fn join(&self, collection: Uuid, id: Uuid) -> Result<(), Error> {
        let path = ["collections", &collection.to_string(), "documents", &id.to_string()];
        unless(self.post::<_, IgnoredAny>(&path, &()).await, &[409]).map(drop)
    }

    /// Whether R2R runs and still accepts the credentials.
    pub(super) async fn health(&self) -> Result<(), Error> {
        self.session.pass().await?;
        let _: IgnoredAny = self.request(Method::GET, &["health"]).send().await?.json().await?;
        Ok(())
    }

    /// Resolves with the reason once R2R has refused the credentials. From then on every call fails.
    pub(super) fn refused(&self) -> BoxFuture<'_, String> {
        Box::pin(self.session.refused())
    }

    fn request(&self, method: Method, path: &[&str]) -> RestRequest {
        let path: Vec<&str> = std::iter::once(VERSION).chain(path.iter().copied()).collect();
        self.rest.request(method, &path)
    }

    /// Counts a request if requests are limited.
    fn admit(&self) -> Result<(), Error> {
        self.pace.as_ref().map_or(Ok(()), Pace::admit)
    }

    /// Sends a request with credentials, and once more if the token was refused.
    async fn made(&self, request: impl Fn() -> RestRequest) -> Result<Answer, Error> {
        // On the heap: a request in flight is large, and a tool may make several.
        Box::pin(async move {
            let pass = self.session.pass().await?;
            self.admit()?;
            match pass.on(request()).send().await {
                Err(error) if is_of_our_token(&error) => {
                    let pass = self.session.renewed(&pass, error).await?;
                    self.admit()?;
                    pass.on(request()).send().await
                }
                answered => answered,
            }
        })
        .await
    }
}

/// Whether R2R refused the token of Switchyard. R2R also answers 401 if the provider of its models refuses
/// R2R's own key. A new token would not fix that.
fn is_of_our_token(error: &Error) -> bool {
    matches!(error, Error::Backend { status: 401, detail, .. } if !detail.starts_with("Authentication error"))
}

/// Returns the answer, or none if R2R answered with one of `statuses`.
fn unless<T>(answer: Result<T, Error>, statuses: &[u16]) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Backend { status, .. }) if statuses.contains(&status) => Ok(None),
        Err(error) => Err(error),
    }
}

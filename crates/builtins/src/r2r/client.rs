//! R2R's REST API, as the tools use it: calls below `/v3`, made as whoever we are there.
//!
//! Invariants: a call whose token R2R refuses is made once more with a new one, and never a third
//! time; nothing else is repeated here. What R2R answers with an error is [`Error::Backend`].
//!
//! Not here: how we log in (`session`), and what the answers mean.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use http::Method;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use super::pace::Pace;
use super::session::Session;
use crate::r2r::config;
use crate::rest::{Answer, Request, Rest};
use net::http::Form;
use net::sse::Event;
use upstream::api::{Error, Means};

/// The version of the API, first in every path.
pub(super) const VERSION: &str = "v3";

/// The body of R2R's answers.
#[derive(Debug, Deserialize)]
pub(super) struct Results<T> {
    /// What was asked for.
    pub(super) results: T,
    /// How many there are beyond this page; only lists have it.
    #[serde(default)]
    pub(super) total_entries: Option<u64>,
}

/// One R2R service and who we are there. Clones are the same.
#[derive(Clone)]
pub(super) struct Client {
    rest: Rest,
    session: Arc<Session>,
    pace: Option<Pace>,
}

impl Client {
    /// Logs in, or finds out whether the key, or nobody, is accepted. [`Error::AuthFailed`] when R2R
    /// refuses us.
    pub(super) async fn open(options: &config::R2r, means: &Means) -> Result<Self, Error> {
        let rest = Rest::new(&options.url, &means.shutdown)?;
        let session = Session::open(rest.clone(), options.credentials.clone(), &means.shutdown).await?;
        Ok(Self { rest, session, pace: options.pace.clone() })
    }

    /// Reads what is at `path`, a segment each, with `query` behind it.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, Error> {
        let answered =
            async { self.made(|| self.request(Method::GET, path).query(query)).await?.json().await };
        Box::pin(answered).await
    }

    /// Reads a list from `offset` on, at most `limit` of it, with `query` behind the two.
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
        // R2R says that a list has no entries where it is asked for what is behind its end.
        if found.results.is_empty() && offset > 0 {
            found.total_entries = page(0, 1).await?.total_entries;
        }
        Ok(found)
    }

    /// Reads what is at `path`, whatever it is.
    pub(super) async fn bytes(&self, path: &[&str]) -> Result<Bytes, Error> {
        self.made(|| self.request(Method::GET, path)).await?.bytes().await
    }

    /// Sends `body` as JSON.
    pub(super) async fn post<B: Serialize + Sync + ?Sized, T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &B,
    ) -> Result<T, Error> {
        let answered =
            async { self.made(|| self.request(Method::POST, path).json(body)).await?.json().await };
        Box::pin(answered).await
    }

    /// Removes what is at `path`.
    pub(super) async fn delete<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Error> {
        self.made(|| self.request(Method::DELETE, path)).await?.json().await
    }

    /// Sends a form with files; `form` makes it, and once more if our token had to be renewed.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        path: &[&str],
        form: impl Fn() -> Form + Sync,
    ) -> Result<T, Error> {
        self.made(|| self.request(Method::POST, path).multipart(form())).await?.json().await
    }

    /// Sends `body` and gives the events of the answer. The stream just ends when R2R gives up: whether
    /// it was complete, its last event says.
    pub(super) async fn events<B: Serialize + Sync + ?Sized>(
        &self,
        path: &[&str],
        body: &B,
    ) -> Result<impl Stream<Item = Result<Event, Error>> + Send + use<B>, Error> {
        let answer = self.made(|| self.request(Method::POST, path).json(body)).await?;
        Ok(answer.events().boxed())
    }

    /// Whether R2R runs and still takes us.
    pub(super) async fn health(&self) -> Result<(), Error> {
        self.session.pass().await?;
        let _: IgnoredAny = self.request(Method::GET, &["health"]).send().await?.json().await?;
        Ok(())
    }

    /// Resolves when R2R has refused our credentials, with the reason. From then on every call fails.
    pub(super) fn refused(&self) -> BoxFuture<'_, String> {
        Box::pin(self.session.refused())
    }

    fn request(&self, method: Method, path: &[&str]) -> Request {
        let path: Vec<&str> = std::iter::once(VERSION).chain(path.iter().copied()).collect();
        self.rest.request(method, &path)
    }

    /// Counts a request, where they are limited.
    fn admit(&self) -> Result<(), Error> {
        self.pace.as_ref().map_or(Ok(()), Pace::admit)
    }

    /// Makes a request as whoever we are, a second time if our token was refused.
    async fn made(&self, request: impl Fn() -> Request) -> Result<Answer, Error> {
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

/// R2R says 401 of our token, and of its own at the provider of its models, which a new one of ours
/// would not mend.
fn is_of_our_token(error: &Error) -> bool {
    matches!(error, Error::Backend { status: 401, detail, .. } if !detail.starts_with("Authentication error"))
}

//! Vectors from any service that speaks the embeddings API of OpenAI.
//!
//! Invariants: a request has at most the configured number of texts and at most [`MOST_BYTES`] of them, and
//! no text is empty. The vectors of a request fit into one answer ([`in_one_answer`]). A temporary failure is
//! retried at most [`RETRIES`] times, after the time of `Retry-After`, and only before the deadline. Returned
//! vectors were counted, sorted and checked. The key is only in the header of the request.

use std::time::Duration;

use futures_util::FutureExt;
use http::Method;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Dimension, Embedding, EmbeddingFuture, Error, OpenAi, Window, is_retryable, is_vector};
use crate::rest::{self, Rest};
use upstream::api::{Error as Failure, ServerContext, ceiling, full_jitter};

/// Most retries of one request.
const RETRIES: u32 = 3;
/// Shortest and longest pause between them. A `Retry-After` that exceeds the longest pause ends the retries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));
/// Time limit of one attempt.
const TRY_LIMIT: Duration = Duration::from_mins(1);
/// Most bytes of texts in one request. A longer text is sent alone.
const MOST_BYTES: usize = 512 << 10;
/// Most bytes of one number in an answer, including the indentation that some services write.
const NUMBER_BYTES: usize = 32;
/// Assumed numbers of a vector before the first one was seen. Few models have more.
const USUAL_DIMENSION: usize = 4_096;

/// Window of OpenAI's models, in tokens.
const OPENAI_WINDOW: usize = 8_191;
/// Window of the models of most compatible services.
const USUAL_WINDOW: usize = 512;
const MINILM_WINDOW: usize = 254;

/// A service across the network.
pub(crate) struct OpenAiClient {
    rest: Rest,
    model: String,
    key: Option<SecretString>,
    /// Requested dimension, if configured. Many services refuse the member.
    dimensions: Option<usize>,
    batch: usize,
    dimension: Dimension,
}

#[derive(Serialize)]
struct EmbeddingsRequest<'a> {
    model: &'a str,
    input: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct Response {
    data: Vec<EmbeddingObject>,
}

#[derive(Deserialize)]
struct EmbeddingObject {
    /// `None` where the service leaves it out, as Gemini does for 0. The place in the list counts then.
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl OpenAiClient {
    /// The service of `options`. Returns `None` if it is OpenAI's own and has no key.
    pub(crate) fn new(options: &OpenAi, server_context: &ServerContext) -> Result<Option<Self>, Error> {
        if options.needs_key && options.api_key.is_none() {
            return Ok(None);
        }
        let failed = |failure| failed(&options.model, failure);
        Ok(Some(Self {
            rest: Rest::new(&options.url, server_context).map_err(failed)?,
            model: options.model.clone(),
            key: options.api_key.clone(),
            dimensions: options.dimensions,
            batch: options.batch,
            dimension: Dimension::configured(options.dimensions),
        }))
    }

    async fn all(&self, texts: &[String], deadline: Instant) -> Result<Vec<Vec<f32>>, Error> {
        if let Some(index) = texts.iter().position(String::is_empty) {
            return Err(Error::Empty { index, count: texts.len() });
        }
        let mut vectors = Vec::with_capacity(texts.len());
        let mut at = 0;
        while at < texts.len() {
            let end =
                at + in_one_request(&texts[at..], self.batch.min(in_one_answer(self.dimension.known())));
            vectors.extend(self.batch(&texts[at..end], deadline).await?);
            at = end;
        }
        Ok(vectors)
    }

    /// Sends one request, with its retries.
    async fn batch(&self, texts: &[String], deadline: Instant) -> Result<Vec<Vec<f32>>, Error> {
        let mut tries = 0;
        loop {
            let started = Instant::now();
            let limit = deadline.min(started + TRY_LIMIT);
            let late = |_| Err(Failure::TimedOut { after: started.elapsed() });
            let failure = match timeout_at(limit, self.ask(texts)).await.unwrap_or_else(late) {
                Ok(response) => return self.read(response, texts.len()),
                Err(failure) => failure,
            };
            let next = pause(&failure, tries).map(|pause| Instant::now() + pause);
            match next.filter(|next| tries < RETRIES && *next < deadline) {
                Some(next) => sleep_until(next).await,
                None => return Err(failed(&self.model, failure)),
            }
            tries += 1;
        }
    }

    async fn ask(&self, texts: &[String]) -> Result<Response, Failure> {
        let body = EmbeddingsRequest { model: &self.model, input: texts, dimensions: self.dimensions };
        let mut request = self.rest.request(Method::POST, &["embeddings"]).json(&body);
        if let Some(key) = &self.key {
            request = request.bearer(key);
        }
        request.send().await?.json().await
    }

    /// Returns the vectors of `response` in order, if there is one for each of `count` texts.
    fn read(&self, response: Response, count: usize) -> Result<Vec<Vec<f32>>, Error> {
        let Response { data } = response;
        if data.len() != count {
            return Err(self.nonsense(format!("{} vectors for {count} texts", data.len())));
        }
        let placed =
            |(at, embedded): (usize, EmbeddingObject)| (embedded.index.unwrap_or(at), embedded.embedding);
        let mut vectors: Vec<_> = data.into_iter().enumerate().map(placed).collect();
        vectors.sort_by_key(|(index, _)| *index);
        if vectors.iter().enumerate().any(|(at, (index, _))| *index != at) {
            return Err(self.nonsense(format!("its indexes are not those of {count} texts")));
        }
        let vectors: Vec<_> = vectors.into_iter().map(|(_, vector)| vector).collect();
        if let Some(bad) = vectors.iter().position(|vector| !is_vector(vector)) {
            return Err(self.nonsense(format!("vector {bad} is empty or has a number that is not finite")));
        }
        self.dimension.check(&self.model, &vectors)?;
        Ok(vectors)
    }

    fn nonsense(&self, reason: String) -> Error {
        Error::Nonsense { provider: WORD, model: self.model.clone(), reason }
    }
}

const WORD: &str = "openai";

impl Embedding for OpenAiClient {
    fn embed<'a>(&'a self, texts: &'a [String], deadline: Instant) -> EmbeddingFuture<'a> {
        self.all(texts, deadline).boxed()
    }

    fn provider(&self) -> &'static str {
        WORD
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn dimension(&self) -> Option<usize> {
        self.dimension.known()
    }

    fn window(&self) -> Window {
        let model = self.model.to_ascii_lowercase();
        Window::of_tokens(match () {
            () if model.contains("text-embedding-") => OPENAI_WINDOW,
            () if model.contains("minilm") => MINILM_WINDOW,
            () => USUAL_WINDOW,
        })
    }
}

fn failed(model: &str, failure: Failure) -> Error {
    Error::Failed { provider: WORD, model: model.to_owned(), failure }
}

/// Returns the pause after a failure, after `tries` earlier attempts. Returns `None` if a retry is useless.
fn pause(failure: &Failure, tries: u32) -> Option<Duration> {
    if !is_retryable(failure) {
        return None;
    }
    let (first, longest) = PAUSES;
    let requested = match failure {
        Failure::Status { retry_after, .. } | Failure::Backend { retry_after, .. } => *retry_after,
        _ => None,
    };
    match requested {
        Some(requested) => (requested <= longest).then_some(requested),
        None => Some(full_jitter(ceiling(first, longest, tries))),
    }
}

/// Returns how many of `texts` fit into one request: at least one, and at most `most`.
fn in_one_request(texts: &[String], most: usize) -> usize {
    let mut bytes = 0;
    let fits = |(at, text): &(usize, &String)| {
        bytes += text.len();
        *at == 0 || (*at < most && bytes <= MOST_BYTES)
    };
    texts.iter().enumerate().take_while(fits).count()
}

/// Returns how many vectors of `dimension` numbers fit into one answer, at least one.
fn in_one_answer(dimension: Option<usize>) -> usize {
    (rest::MOST_BYTES / (NUMBER_BYTES * dimension.unwrap_or(USUAL_DIMENSION))).max(1)
}

#[cfg(test)]
#[path = "openai_tests.rs"]
mod tests;

//! Vectors of texts: the trait of all providers, the selection of a provider by the configuration, arithmetic on vectors, and
//! the check of their dimension.
//!
//! Invariants of every [`Embedding`]: the result has as many vectors as texts, in their order, or it is an
//! error. All vectors have one dimension and finite numbers, and a vector is never made up. The first
//! dimension that was seen stays. Another one is an error before any caller can store it. A new provider
//! changes this folder only.
//!
//! Not here: the use of the vectors, and cutting texts to a model's [`Window`] ([`super::chunk`]).

mod cached;
mod config;
#[cfg(feature = "local-embeddings")]
mod local;
mod openai;
#[cfg(test)]
mod testing;
mod window;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use upstream::api::{Error as Failure, ServerContext};

pub(crate) use cached::Cached;
pub(crate) use config::{Config, LocalModelOptions, OpenAi};
pub(crate) use openai::OpenAiClient;
pub(crate) use window::Window;

/// Largest dimension. No model has a larger one.
pub(crate) const MOST_DIMENSIONS: usize = 65_536;
/// Products that are computed in parallel.
const LANES: usize = 16;
/// Least cosine of a vector and its repetition. Rounding on another machine changes far less, and another
/// model far more.
const SAME: f32 = 0.995;

/// The vectors of texts, in their order.
pub(crate) type EmbeddingFuture<'a> = BoxFuture<'a, Result<Vec<Vec<f32>>, Error>>;

/// A model that makes vectors of texts.
pub(crate) trait Embedding: Send + Sync + 'static {
    /// Returns the vector of each of `texts` by `deadline`. None of the texts is empty.
    fn embed<'a>(&'a self, texts: &'a [String], deadline: Instant) -> EmbeddingFuture<'a>;

    /// Returns newly made vectors, which are not cached either. For a caller that stores them, and to see whether a
    /// model is still the same.
    fn embed_uncached<'a>(&'a self, texts: &'a [String], deadline: Instant) -> EmbeddingFuture<'a> {
        self.embed(texts, deadline)
    }

    /// Drops the cached vectors, because the model behind its name has changed.
    fn forget_cached(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// The configured value that selects it.
    fn provider(&self) -> &'static str;

    /// The model. All texts of one collection need one model.
    fn model(&self) -> &str;

    /// Numbers in a vector, once known.
    fn dimension(&self) -> Option<usize> {
        None
    }

    /// How much of a text the model reads.
    fn window(&self) -> Window;
}

/// Why there are no vectors. The texts are for operators and name the provider. They contain no secret and no
/// part of the texts.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Error {
    /// No provider is configured, or half of one.
    #[error("{0}")]
    NotConfigured(Missing),
    /// A text without a character has no vector.
    #[error("text {} of {count} is empty, and an empty text has no vector", index + 1)]
    Empty {
        /// Index of the empty text, from 0.
        index: usize,
        /// Number of texts.
        count: usize,
    },
    /// The provider could not be reached, refused, or failed, after all retries.
    #[error("the embedding provider `{provider}` (model `{model}`) failed: {failure}")]
    Failed {
        /// The configured name of the provider.
        provider: &'static str,
        /// Its model.
        model: String,
        /// The failure.
        failure: Failure,
    },
    /// The provider answered something other than vectors of these texts.
    #[error("the embedding provider `{provider}` (model `{model}`) answered nonsense: {reason}")]
    Nonsense {
        /// The configured name of the provider.
        provider: &'static str,
        /// Its model.
        model: String,
        /// Why the answer is wrong.
        reason: String,
    },
    /// Vectors of another length than expected. Nothing was stored.
    #[error(
        "the embedding model `{model}` gave vectors of {found} numbers where {expected} are expected; vectors of \
         different models do not mix: check `model` and `dimensions`"
    )]
    Dimension {
        /// The model.
        model: String,
        /// Dimension that was configured or seen before.
        expected: usize,
        /// Dimension in the answer.
        found: usize,
    },
    /// The model could not be loaded from its folder.
    #[error("the embedding model in `model_dir` cannot be used: {reason}")]
    Unusable {
        /// The reason.
        reason: String,
    },
}

impl Error {
    /// Whether a retry may succeed later without any change by an operator.
    pub(crate) const fn is_retryable(&self) -> bool {
        match self {
            Self::Failed { failure, .. } => is_retryable(failure),
            Self::NotConfigured(_)
            | Self::Empty { .. }
            | Self::Nonsense { .. }
            | Self::Dimension { .. }
            | Self::Unusable { .. } => false,
        }
    }
}

/// Whether to retry after `failure`. Making vectors has no side effect, so every temporary failure is
/// retried.
const fn is_retryable(failure: &Failure) -> bool {
    match failure {
        Failure::Connect { .. }
        | Failure::NotSent { .. }
        | Failure::SessionEnded(_)
        | Failure::Lost { .. }
        | Failure::Cut { .. }
        | Failure::TimedOut { .. }
        | Failure::CircuitOpen { .. }
        | Failure::Overloaded { .. }
        | Failure::Full { .. }
        | Failure::Paced { .. } => true,
        Failure::Status { status, .. } | Failure::Backend { status, .. } => {
            matches!(status, 429 | 500..=599)
        }
        Failure::AuthFailed { .. }
        | Failure::LoginRequired { .. }
        | Failure::SecretRequired { .. }
        | Failure::Malformed { .. }
        | Failure::Unreadable { .. }
        | Failure::TooLarge { .. }
        | Failure::MemoryExhausted
        | Failure::Unavailable { .. } => false,
    }
}

/// Returns the provider that `config` describes. Its vectors are cached in the store of `server_context`. A local model is read now.
pub(crate) async fn open(
    config: &Config,
    server_context: &ServerContext,
) -> Result<Arc<dyn Embedding>, Error> {
    Ok(match config {
        Config::Local(options) => {
            Arc::new(Cached::new(load(options).await?, &options.place(), &server_context.store))
        }
        Config::None => Arc::new(NoProvider::any()),
        Config::OpenAi(options) => match OpenAiClient::new(options, server_context)? {
            Some(remote) => Arc::new(Cached::new(Arc::new(remote), &options.place(), &server_context.store)),
            None => Arc::new(NoProvider::key(options)),
        },
    })
}

#[cfg(feature = "local-embeddings")]
async fn load(options: &LocalModelOptions) -> Result<Arc<dyn Embedding>, Error> {
    Ok(Arc::new(local::LocalModel::load(options).await?))
}

#[cfg(not(feature = "local-embeddings"))]
#[allow(clippy::unused_async)] // the other one has to wait
async fn load(_: &LocalModelOptions) -> Result<Arc<dyn Embedding>, Error> {
    Err(Error::Unusable { reason: "this program was built without local models".into() })
}

/// How long a vector is cached. It never changes, but no store keeps an entry for longer.
const KEPT: Duration = Duration::from_hours(24);

/// The missing setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    /// No provider is configured.
    #[error(
        "no embedding provider is configured: set `embedding.provider` to `openai` and `embedding.api_key` (or the \
         `embedding.url` of a compatible service), or to `local` and `embedding.model_dir`"
    )]
    Provider,
    /// The configured provider has no key.
    #[error(
        "the embedding provider `openai` has no key: set `embedding.api_key`, or the `embedding.url` of a compatible \
         service that needs none"
    )]
    Key,
}

/// Stands for a missing provider, or one without its key. Reports what is missing when a vector is needed.
#[derive(Debug)]
pub(crate) struct NoProvider {
    missing: Missing,
    model: String,
}

impl NoProvider {
    /// For a configuration without a provider.
    pub(crate) const fn any() -> Self {
        Self { missing: Missing::Provider, model: String::new() }
    }

    /// For a provider with an empty key.
    fn key(options: &OpenAi) -> Self {
        Self { missing: Missing::Key, model: options.model.clone() }
    }
}

impl Embedding for NoProvider {
    fn embed<'a>(&'a self, _: &'a [String], _: Instant) -> EmbeddingFuture<'a> {
        std::future::ready(Err(Error::NotConfigured(self.missing))).boxed()
    }

    fn provider(&self) -> &'static str {
        match self.missing {
            Missing::Provider => "none",
            Missing::Key => "openai",
        }
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn window(&self) -> Window {
        Window::of_tokens(usize::MAX)
    }
}

/// Whether a vector may be stored and compared.
fn is_vector(vector: &[f32]) -> bool {
    !vector.is_empty() && vector.iter().all(|number| number.is_finite())
}

/// Returns the sum of the products, computed in lanes for vector instructions.
pub(crate) fn product(one: &[f32], other: &[f32]) -> f32 {
    let (ones, rest) = one.as_chunks::<LANES>();
    let (others, other_rest) = other.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (one, other) in ones.iter().zip(others) {
        for lane in 0..LANES {
            sums[lane] += one[lane] * other[lane];
        }
    }
    let tail: f32 = rest.iter().zip(other_rest).map(|(one, other)| one * other).sum();
    sums.iter().sum::<f32>() + tail
}

/// Whether one model may have made both vectors from one text. Only the direction and the dimension matter,
/// not the length.
pub(crate) fn is_same_direction(one: &[f32], other: &[f32]) -> bool {
    let lengths = (product(one, one) * product(other, other)).sqrt();
    one.len() == other.len() && lengths > 0.0 && product(one, other) >= SAME * lengths
}

/// The dimension, if it is known.
#[derive(Debug, Default)]
struct Dimension(OnceLock<usize>);

impl Dimension {
    /// Starts with the operator's value.
    fn configured(dimension: Option<usize>) -> Self {
        Self(dimension.map_or_else(OnceLock::new, OnceLock::from))
    }

    fn known(&self) -> Option<usize> {
        self.0.get().copied()
    }

    /// Checks that all vectors of `model` have the known dimension. Stores that of the first vector if there
    /// is none.
    fn check(&self, model: &str, vectors: &[Vec<f32>]) -> Result<(), Error> {
        let Some(first) = vectors.first().map(Vec::len) else { return Ok(()) };
        let expected = self.known().unwrap_or(first);
        if let Some(other) = vectors.iter().map(Vec::len).find(|len| *len != expected) {
            return Err(Error::Dimension { model: model.to_owned(), expected, found: other });
        }
        // Another call may have stored its dimension first.
        let expected = *self.0.get_or_init(|| first);
        let model = || model.to_owned();
        if first == expected {
            Ok(())
        } else {
            Err(Error::Dimension { model: model(), expected, found: first })
        }
    }
}

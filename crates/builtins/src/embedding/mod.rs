//! Vectors of texts: what every provider of them is, and which one a configuration means.
//!
//! Invariants of every [`Embedding`]: as many vectors as texts, in their order, all of one dimension and
//! of finite numbers, or an error; a vector is never made up. The dimension that was once seen stays:
//! another one is an error before anybody can store it. A new provider touches this folder only.
//!
//! Not here: what vectors are stored for, and cutting texts to a model's [`Window`]
//! ([`super::chunk`] does that).

mod cached;
mod config;
mod dimension;
#[cfg(feature = "local-embeddings")]
mod local;
mod none;
mod numbers;
mod openai;
#[cfg(test)]
mod testing;
mod window;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

pub use cached::Cached;
pub use config::{Config, Local, OpenAi};
#[cfg(feature = "local-embeddings")]
pub use local::InProcess;
pub use none::{Missing, NoProvider};
pub use numbers::{MOST_DIMENSIONS, is_same_direction, product};
pub use openai::Remote;
pub use window::Window;

use upstream::api::{Error as Failure, Means};

/// A model that makes vectors of texts.
pub trait Embedding: Send + Sync + 'static {
    /// The vector of each of `texts`, of which none is empty; it ends by `deadline`.
    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>>;

    /// The same, made for this and not kept from before: what shows whether a model is still the same.
    fn embed_anew<'a>(
        &'a self,
        texts: &'a [String],
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>> {
        self.embed(texts, deadline)
    }

    /// The word of the configuration for it.
    fn provider(&self) -> &'static str;

    /// Which model; texts of one collection have to come from one.
    fn model(&self) -> &str;

    /// Numbers in a vector, once that is known.
    fn dimension(&self) -> Option<usize>;

    /// How much of a text it reads.
    fn window(&self) -> Window;
}

/// Why there are no vectors. Texts are for people and name the provider; they hold no secret and
/// nothing of what was to be embedded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// No provider is configured, or half of one.
    #[error("{0}")]
    NotConfigured(Missing),
    /// A text without a character has no vector.
    #[error("text {} of {count} is empty, and an empty text has no vector", index + 1)]
    Empty {
        /// Which one, from 0.
        index: usize,
        /// Of how many.
        count: usize,
    },
    /// The provider could not be reached, refused or failed, after as many tries as it was worth.
    #[error("the embedding provider `{provider}` (model `{model}`) failed: {failure}")]
    Failed {
        /// Its word in the configuration.
        provider: &'static str,
        /// Its model.
        model: String,
        /// What happened.
        failure: Failure,
    },
    /// What it answered are no vectors of these texts.
    #[error("the embedding provider `{provider}` (model `{model}`) answered nonsense: {reason}")]
    Nonsense {
        /// Its word in the configuration.
        provider: &'static str,
        /// Its model.
        model: String,
        /// What is wrong with it.
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
        /// What was configured or seen before.
        expected: usize,
        /// What came.
        found: usize,
    },
    /// The model could not be loaded from its folder.
    #[error("the embedding model in `model_dir` cannot be used: {reason}")]
    Unusable {
        /// Why.
        reason: String,
    },
}

impl Error {
    /// Whether the same may go well later, without anybody changing anything.
    pub const fn is_retryable(&self) -> bool {
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

/// Vectors have no side effect, so whatever may pass is worth another try.
const fn is_retryable(failure: &Failure) -> bool {
    match failure {
        Failure::Connect { .. }
        | Failure::NotSent { .. }
        | Failure::Lost { .. }
        | Failure::Cut { .. }
        | Failure::TimedOut { .. }
        | Failure::CircuitOpen { .. }
        | Failure::Overloaded { .. }
        | Failure::Leased { .. }
        | Failure::Paced { .. } => true,
        Failure::Status { status, .. } | Failure::Backend { status, .. } => {
            matches!(status, 429 | 500..=599)
        }
        Failure::AuthFailed { .. }
        | Failure::LoginRequired { .. }
        | Failure::Malformed { .. }
        | Failure::TooLarge { .. }
        | Failure::MemoryExhausted
        | Failure::Unavailable { .. } => false,
    }
}

/// Returns the provider that `config` describes. Its vectors are cached in the store of `means`. A local model is read now.
pub async fn open(config: &Config, means: &Means) -> Result<Arc<dyn Embedding>, Error> {
    Ok(match config {
        Config::Local(options) => Arc::new(Cached::new(load(options).await?, &options.place(), &means.store)),
        Config::None => Arc::new(NoProvider::any()),
        Config::OpenAi(options) => match Remote::new(options, &means.shutdown)? {
            Some(remote) => Arc::new(Cached::new(Arc::new(remote), &options.place(), &means.store)),
            None => Arc::new(NoProvider::key(options)),
        },
    })
}

#[cfg(feature = "local-embeddings")]
async fn load(options: &Local) -> Result<Arc<dyn Embedding>, Error> {
    Ok(Arc::new(local::InProcess::load(options).await?))
}

#[cfg(not(feature = "local-embeddings"))]
#[allow(clippy::unused_async)] // the other one has to wait
async fn load(_: &Local) -> Result<Arc<dyn Embedding>, Error> {
    Err(Error::Unusable { reason: "this program was built without local models".into() })
}

/// How long what a model made of a text is kept: it never changes, but no store keeps anything for longer.
const KEPT: Duration = Duration::from_hours(24);

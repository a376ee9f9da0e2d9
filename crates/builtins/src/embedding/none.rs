//! Stands for a missing provider, or one without its key. Reports what is missing when a vector is needed.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{Embedding, Error, OpenAi, Window};

/// The missing setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
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

/// A provider that makes no vectors.
#[derive(Debug)]
pub struct NoProvider {
    missing: Missing,
    model: String,
}

impl NoProvider {
    /// For a configuration without a provider.
    pub const fn any() -> Self {
        Self { missing: Missing::Provider, model: String::new() }
    }

    /// For a provider with an empty key.
    pub(super) fn key(options: &OpenAi) -> Self {
        Self { missing: Missing::Key, model: options.model.clone() }
    }
}

impl Embedding for NoProvider {
    fn embed<'a>(&'a self, _: &'a [String], _: Instant) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>> {
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

    fn dimension(&self) -> Option<usize> {
        None
    }

    fn window(&self) -> Window {
        Window::of_tokens(usize::MAX)
    }
}

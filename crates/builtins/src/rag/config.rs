//! Reads the options of the RAG techniques.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use runtime::secret::ExposeSecret;
use settings::{FromSetting, Setting, settings};
use upstream::api::{BuiltinOptions, Connector, ServerContext, header_value};

settings! {
    struct Own {
        /// sent with every request to the bridge
        api_key: Option<SecretString>, with key;
        /// longest time between two reads of the list of techniques
        refresh: Duration = Duration::from_mins(1), in 1.0..=86_400.0;
        /// techniques that are offered at most
        max_techniques: usize = 64, in 1..=500;
    }
}

/// Options of the RAG techniques. `Debug` shows no URL, because any part of one may be a secret.
#[derive(Clone)]
pub(crate) struct RagOptions {
    /// URL of the bridge, without `/mcp`.
    pub url: Url,
    /// Key for the header `Authorization: Bearer …` of every request.
    pub api_key: Option<SecretString>,
    /// Longest time between two reads of the list.
    pub refresh: Duration,
    /// Most techniques that are offered.
    pub max_techniques: usize,
}

impl fmt::Debug for RagOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { refresh, max_techniques, .. } = self;
        f.debug_struct("Rag")
            .field("refresh", refresh)
            .field("max_techniques", max_techniques)
            .finish_non_exhaustive()
    }
}

impl BuiltinOptions for RagOptions {
    fn connector(&self, name: &Arc<str>, server_context: &ServerContext) -> Arc<dyn Connector> {
        crate::connect!(super::Rag, self, name, server_context)
    }
}

/// Reads `url` and `rag`, which is optional.
pub(crate) fn read(server: &Setting<'_>) -> Option<Arc<dyn BuiltinOptions>> {
    let hint = "add the address of the bridge, such as `url: http://localhost:8000`";
    let url = server.require("url", hint).and_then(|url| url.url());
    let options = server.member("rag").map_or_else(|| Some(Own::default()), |rag| Own::from_setting(&rag));
    let Own { api_key, refresh, max_techniques } = options?;
    Some(Arc::new(RagOptions { url: url?, api_key, refresh, max_techniques }))
}

fn key(setting: &Setting<'_>) -> Option<SecretString> {
    let key = header_value(setting)?;
    if key.expose_secret().trim().is_empty() {
        setting.hidden_problem("the key is empty", Some("set the variable, or remove `api_key`".into()));
        return None;
    }
    Some(key)
}

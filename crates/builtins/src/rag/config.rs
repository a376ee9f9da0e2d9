//! Reads the options of the RAG techniques.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use runtime::secret::ExposeSecret;
use settings::Setting;
use upstream::api::{BuiltinOptions, Connector, ServerContext, TransportFields, header_value, require};

/// Bounds of the time between two reads of the list, in seconds.
const REFRESH: std::ops::RangeInclusive<f64> = 1.0..=86_400.0;
/// Upper bound of `max_techniques`.
const MOST_TECHNIQUES: usize = 500;

/// Options of the RAG techniques. `Debug` shows no URL, because any part of one may be a secret.
#[derive(Clone)]
pub struct RagOptions {
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
pub fn read(
    given: &TransportFields<'_>,
    server: &Setting<'_>,
    _folder: &Path,
) -> Option<Arc<dyn BuiltinOptions>> {
    let hint = "add the address of the bridge, such as `url: http://localhost:8000`";
    let url = require(given, "url", server, hint).and_then(Setting::url);
    let (mut api_key, mut refresh, mut max_techniques) = (None, None, None);
    if let Some(setting) = given.get("rag") {
        let mut fields = setting.fields()?;
        api_key = fields.take("api_key").and_then(|key| self::key(&key));
        refresh = fields.seconds("refresh", REFRESH);
        max_techniques = fields.integer("max_techniques", 1..=MOST_TECHNIQUES);
        fields.finish();
    }
    Some(Arc::new(RagOptions {
        url: url?,
        api_key,
        refresh: refresh.unwrap_or(Duration::from_mins(1)),
        max_techniques: max_techniques.unwrap_or(64),
    }))
}

fn key(setting: &Setting<'_>) -> Option<SecretString> {
    let key = header_value(setting)?;
    if key.expose_secret().trim().is_empty() {
        setting.hidden_problem("the key is empty", Some("set the variable, or remove `api_key`".into()));
        return None;
    }
    Some(key)
}

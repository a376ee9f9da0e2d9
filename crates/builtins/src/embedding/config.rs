//! Reads `embedding:` of a configuration: which provider makes vectors, and its settings.

use std::fmt;
use std::path::PathBuf;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use url::Url;

use super::MOST_DIMENSIONS;
use settings::{Setting, settings, words};

/// URL of OpenAI's own service, and the default model.
const OPENAI_URL: &str = "https://api.openai.com/v1";
const OPENAI_MODEL: &str = "text-embedding-3-small";
const LONGEST_MODEL: usize = 200;

/// The embedding provider.
#[derive(Debug, Clone, Default)]
pub(crate) enum Config {
    /// No provider. A tool that needs a vector reports that.
    #[default]
    None,
    /// A service with OpenAI's API.
    OpenAi(OpenAi),
    /// A model inside the gateway.
    Local(LocalModelOptions),
}

/// A service with OpenAI's API. `Debug` shows no URL, because any part of one may be a secret.
#[derive(Clone)]
pub(crate) struct OpenAi {
    /// Base URL, to which `/embeddings` is added.
    pub url: Url,
    /// Whether it is OpenAI's own service, which requires a key.
    pub needs_key: bool,
    /// Name of the model at the service.
    pub model: String,
    /// The key, never empty.
    pub api_key: Option<SecretString>,
    /// Dimension to request. `None` for the model's own.
    pub dimensions: Option<usize>,
    /// Most texts in one request. Fewer are sent if their vectors would exceed the limit of one response.
    pub batch: usize,
}

/// A model inside the gateway.
#[derive(Debug, Clone)]
pub(crate) struct LocalModelOptions {
    /// A sentence-transformers folder: `config.json`, `tokenizer.json`, `model.safetensors`.
    pub model_dir: PathBuf,
    /// Name of the model; by default the name of the folder.
    pub model: String,
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi").field("model", &self.model).finish_non_exhaustive()
    }
}

impl OpenAi {
    /// Returns a hash that tells apart services with models of one name. It does not reveal the URL.
    pub(super) fn place(&self) -> String {
        short_hash(&format!("{} {:?}", self.url, self.dimensions))
    }
}

impl LocalModelOptions {
    /// Returns a hash that tells apart models of one name.
    pub(super) fn place(&self) -> String {
        short_hash(&self.model_dir.to_string_lossy())
    }
}

fn short_hash(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..8])
}

words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum ProviderName {
        OpenAi = "openai",
        Local = "local",
        None = "none",
    }
}

/// Fields of one provider only. With `none` all of them are allowed, so that one word turns embedding off.
const FIELDS: [(&str, ProviderName); 5] = [
    ("url", ProviderName::OpenAi),
    ("api_key", ProviderName::OpenAi),
    ("dimensions", ProviderName::OpenAi),
    ("batch", ProviderName::OpenAi),
    ("model_dir", ProviderName::Local),
];

settings! {
    struct Own {
        /// `openai`, `local` or `none`; with `none` the other options may stay, so one word turns it off
        provider: ProviderName, required "add `provider: openai`, `local` or `none`";
        /// its name at the service; for `local`, the name of the model
        model: Option<String> => "`text-embedding-3-small`; for `local`, the name of the folder", with model;
        /// for `openai`: the address to which `/embeddings` is added
        url: Option<Url> => "`https://api.openai.com/v1`";
        /// for `openai`: sent as bearer token; OpenAI's own service needs one
        api_key: Option<SecretString>, with key;
        /// for `openai`: sent only if it is set, because many services refuse it
        dimensions: Option<usize> => "as many as the model makes", in 1..=MOST_DIMENSIONS;
        /// for `openai`: texts in one request; fewer if their vectors would be more than 16 MiB of JSON
        batch: usize = 128, in 1..=2_048;
        /// for `local`: the folder of a sentence-transformers model, absolute or relative to the configuration file
        model_dir: Option<PathBuf> => "required for `local`";
    }
    check Own::check;
}

impl Config {
    /// Returns a text of letters and digits that differs for different models. It does not reveal the URL.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::OpenAi(options) => format!("openai {} {}", options.place(), short_hash(&options.model)),
            Self::Local(options) => format!("local {} {}", options.place(), short_hash(&options.model)),
        }
    }

    /// Reads `embedding:`. If it is invalid, reports why and returns `None`.
    pub(crate) fn from_settings(setting: &Setting<'_>) -> Option<Self> {
        let mut fields = setting.fields()?;
        let is_none = |provider: Setting<'_>| provider.is_word(ProviderName::None.as_str());
        if !setting.is_any() && setting.member("provider").is_some_and(is_none) {
            // They may be empty, as when a variable is not set.
            fields.ignore(&["model"]);
            fields.ignore(&FIELDS.map(|(name, _)| name));
        }
        let own = Own::from_fields(&mut fields);
        fields.finish();
        let own = own?;
        match own.provider {
            ProviderName::None => Some(Self::None),
            ProviderName::OpenAi => own.openai().map(Self::OpenAi),
            ProviderName::Local => own.local().map(Self::Local),
        }
    }
}

impl Own {
    fn check(&mut self, setting: &Setting<'_>) {
        let provider = self.provider;
        let is_other = |other: &ProviderName| provider != ProviderName::None && *other != provider;
        for (field, other) in FIELDS.iter().filter(|(_, other)| is_other(other)) {
            let what = format_args!("provider `{}`", provider.as_str());
            setting.refuse_member(field, what, format!("it belongs to provider `{}`", other.as_str()));
        }
        if provider == ProviderName::Local && !cfg!(feature = "local-embeddings") {
            let hint = "build it with `cargo build --release --features local-embeddings`";
            setting.key_problem("this program was built without local models", Some(hint.into()));
        }
        if provider == ProviderName::Local {
            let hint = "add the folder of a sentence-transformers model, such as `model_dir: models/all-MiniLM-L6-v2`";
            setting.require("model_dir", hint);
        }
    }

    fn openai(self) -> Option<OpenAi> {
        Some(OpenAi {
            needs_key: self.url.is_none(),
            url: self.url.or_else(|| Url::parse(OPENAI_URL).ok())?,
            model: self.model.unwrap_or_else(|| OPENAI_MODEL.to_owned()),
            // An empty key counts as no key, as when a variable is not set.
            api_key: self.api_key.filter(|key| !key.expose_secret().trim().is_empty()),
            dimensions: self.dimensions,
            batch: self.batch,
        })
    }

    fn local(self) -> Option<LocalModelOptions> {
        let model_dir = self.model_dir?;
        let name = model_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Some(LocalModelOptions { model: self.model.unwrap_or(name), model_dir })
    }
}

fn model(setting: &Setting<'_>) -> Option<String> {
    setting.parsed("the name of a model", |text| {
        let fits = text.len() <= LONGEST_MODEL && !text.contains(char::is_control);
        (fits && !text.trim().is_empty()).then(|| text.trim().to_owned())
    })
}

/// Reads a key, if it can be sent in a header.
fn key(setting: &Setting<'_>) -> Option<SecretString> {
    let key = setting.secret()?;
    if HeaderValue::from_str(key.expose_secret()).is_err() {
        let hint = "it must be one line of ASCII characters";
        setting.hidden_problem("the key cannot be sent in a header", Some(hint.into()));
        return None;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use settings::{Node, Problems};

    fn read(value: serde_json::Value) -> Result<Config, Vec<String>> {
        let (node, problems) = (Node::from(value), Problems::default());
        let config = Config::from_settings(&Setting::root(&node, &problems));
        let found: Vec<_> = problems.sorted().iter().map(ToString::to_string).collect();
        if found.is_empty() { Ok(config.expect("no problem, so a value")) } else { Err(found) }
    }

    #[track_caller]
    fn openai(value: serde_json::Value) -> OpenAi {
        match read(value) {
            Ok(Config::OpenAi(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn default_service_is_openai() {
        let options = openai(json!({"provider": "openai", "api_key": "sk-1"}));
        assert_eq!(options.url.as_str(), OPENAI_URL);
        assert_eq!((options.model.as_str(), options.dimensions, options.batch), (OPENAI_MODEL, None, 128));
        assert_eq!(options.api_key.as_ref().map(ExposeSecret::expose_secret), Some("sk-1"));
        assert!(!format!("{options:?}").contains("sk-1"));
        assert!(openai(json!({"provider": "openai", "api_key": " "})).api_key.is_none(), "an unset variable");
    }

    #[test]
    fn the_place_tells_services_apart_and_names_none() {
        let place = |url: &str, dimensions: usize| {
            openai(json!({"provider": "openai", "url": url, "dimensions": dimensions})).place()
        };
        let one = place("http://u:secret@host/v1", 256);
        assert_eq!(one, place("http://u:secret@host/v1", 256));
        assert_ne!(one, place("http://u:secret@other/v1", 256));
        assert_ne!(one, place("http://u:secret@host/v1", 512));
        assert!(one.len() == 16 && one.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn none_leaves_the_rest_as_it_is() {
        let config = read(json!({"provider": "none", "model": "m", "api_key": "k", "model_dir": "d"}));
        assert!(matches!(config, Ok(Config::None)));
        let unset = read(json!({"provider": "none", "url": "", "model": "", "dimensions": ""}));
        assert!(matches!(unset, Ok(Config::None)), "variables that are not set");
    }

    #[test]
    fn all_problems_come_at_once() {
        assert_eq!(
            read(json!({"provider": "openai", "url": "ftp://x", "model": " ", "api_key": "a\nb", "batch": 0,
                "dimensions": 1.5, "model_dir": "d", "modell": 1}))
            .expect_err("refused"),
            [
                "api_key: the key cannot be sent in a header (hint: it must be one line of ASCII characters)",
                "batch: 0 is out of range, expected 1 to 2048",
                "dimensions: expected a whole number from 1 to 65536, found the number 1.5",
                "model: ` ` is not the name of a model",
                "model_dir: `model_dir` does not go with provider `openai` (hint: it belongs to provider `local`)",
                "modell: unknown key (hint: did you mean `model`?)",
                "url: `ftp://x` is not an http or https URL (hint: write it as `http://host:port/path`)",
            ]
        );
        assert_eq!(
            read(json!({"model": "m"})).expect_err("refused"),
            ["`provider` is missing (hint: add `provider: openai`, `local` or `none`)"]
        );
        let found = read(json!({"provider": "local", "url": "http://x"})).expect_err("refused");
        assert!(
            found.contains(
                &"url: `url` does not go with provider `local` (hint: it belongs to provider `openai`)"
                    .to_owned()
            )
        );
        assert!(found.iter().any(|problem| problem.starts_with("`model_dir` is missing")), "{found:?}");
        let built_without = found.iter().any(|problem| problem.contains("built without local models"));
        assert_eq!(built_without, !cfg!(feature = "local-embeddings"));
    }
}

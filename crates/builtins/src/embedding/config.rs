//! Reads `embedding:` of a configuration: which provider makes vectors, and its settings.

use std::fmt;
use std::path::{Path, PathBuf};

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use url::Url;

use super::numbers::MOST_DIMENSIONS;
use settings::{Fields, Setting};

/// URL of OpenAI's own service, and the default model.
const OPENAI_URL: &str = "https://api.openai.com/v1";
const OPENAI_MODEL: &str = "text-embedding-3-small";
/// Texts in one request: the maximum, and the default.
const MOST_BATCH: usize = 2_048;
const BATCH: usize = 128;
const LONGEST_MODEL: usize = 200;

/// The embedding provider.
#[derive(Debug, Clone, Default)]
pub enum Config {
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
pub struct OpenAi {
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
pub struct LocalModelOptions {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProviderName {
    None,
    OpenAi,
    Local,
}

const PROVIDERS: [(&str, ProviderName); 3] =
    [("openai", ProviderName::OpenAi), ("local", ProviderName::Local), ("none", ProviderName::None)];

/// Fields of one provider only. With `none` all of them are allowed, so that one word turns embedding off.
const FIELDS: [(&str, ProviderName); 5] = [
    ("url", ProviderName::OpenAi),
    ("api_key", ProviderName::OpenAi),
    ("dimensions", ProviderName::OpenAi),
    ("batch", ProviderName::OpenAi),
    ("model_dir", ProviderName::Local),
];

impl Config {
    /// Returns a text of letters and digits that differs for different models. It does not reveal the URL.
    pub fn identity(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::OpenAi(options) => format!("openai {} {}", options.place(), short_hash(&options.model)),
            Self::Local(options) => format!("local {} {}", options.place(), short_hash(&options.model)),
        }
    }

    /// Reads `embedding:`, with paths relative to `folder`. If it is invalid, reports why and returns `None`.
    pub fn from_settings(setting: &Setting<'_>, folder: &Path) -> Option<Self> {
        let mut fields = setting.fields()?;
        let provider = fields.require("provider", "add `provider: openai`, `local` or `none`");
        let provider = provider.and_then(|provider| provider.choice(&PROVIDERS));
        let given = ProviderFields::take(&mut fields);
        fields.finish();
        given.refuse_others(provider?);
        match provider? {
            ProviderName::None => Some(Self::None),
            ProviderName::OpenAi => given.openai().map(Self::OpenAi),
            ProviderName::Local => given.local(setting, folder).map(Self::Local),
        }
    }
}

/// All fields that any provider has.
struct ProviderFields<'a> {
    model: Option<Setting<'a>>,
    others: Vec<(&'static str, ProviderName, Setting<'a>)>,
}

impl<'a> ProviderFields<'a> {
    fn take(fields: &mut Fields<'a>) -> Self {
        let model = fields.take("model");
        let mut take = |(name, provider)| Some((name, provider, fields.take(name)?));
        Self { model, others: FIELDS.into_iter().filter_map(&mut take).collect() }
    }

    fn get(&self, name: &str) -> Option<&Setting<'a>> {
        self.others.iter().find(|(field, ..)| *field == name).map(|(_, _, setting)| setting)
    }

    fn refuse_others(&self, provider: ProviderName) {
        if provider == ProviderName::None {
            return;
        }
        for (field, other, setting) in self.others.iter().filter(|(_, other, _)| *other != provider) {
            let message = format!("`{field}` does not go with provider `{}`", word(provider));
            setting.key_problem(message, Some(format!("it belongs to provider `{}`", word(*other))));
        }
    }

    fn model(&self, usual: &str) -> Option<String> {
        let name = |text: &str| {
            let fits = text.len() <= LONGEST_MODEL && !text.contains(char::is_control);
            (fits && !text.trim().is_empty()).then(|| text.trim().to_owned())
        };
        match &self.model {
            Some(model) => model.parsed("the name of a model", name),
            None => Some(usual.to_owned()),
        }
    }

    fn openai(&self) -> Option<OpenAi> {
        // All fields are read before the first invalid one ends this, so that every problem is reported.
        let url = self.get("url").map_or_else(|| Url::parse(OPENAI_URL).ok(), Setting::url);
        let model = self.model(OPENAI_MODEL);
        let api_key = self.get("api_key").map(key);
        let dimensions = self.get("dimensions").map(|setting| setting.integer(1..=MOST_DIMENSIONS));
        let batch = self.get("batch").map(|setting| setting.integer(1..=MOST_BATCH));
        Some(OpenAi {
            url: url?,
            needs_key: self.get("url").is_none(),
            model: model?,
            // An empty key counts as no key, as when a variable is not set.
            api_key: api_key
                .map_or(Some(None), |key| key.map(Some))?
                .filter(|key| !key.expose_secret().trim().is_empty()),
            dimensions: dimensions.map_or(Some(None), |dimensions| dimensions.map(Some))?,
            batch: batch.unwrap_or(Some(BATCH))?,
        })
    }

    fn local(&self, setting: &Setting<'_>, folder: &Path) -> Option<LocalModelOptions> {
        if !cfg!(feature = "local-embeddings") {
            let hint = "build it with `cargo build --release --features local-embeddings`";
            setting.key_problem("this program was built without local models", Some(hint.into()));
        }
        let Some(dir) = self.get("model_dir") else {
            let hint = "add the folder of a sentence-transformers model, such as `model_dir: models/all-MiniLM-L6-v2`";
            setting.key_problem("`model_dir` is missing", Some(hint.into()));
            return None;
        };
        let model_dir = dir.file_path(folder)?;
        let name = model_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Some(LocalModelOptions { model: self.model(&name)?, model_dir })
    }
}

fn word(provider: ProviderName) -> &'static str {
    PROVIDERS.iter().find(|(_, other)| *other == provider).map_or("", |(word, _)| *word)
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
        let config = Config::from_settings(&Setting::root(&node, &problems), Path::new("etc"));
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
    fn what_is_not_said_is_openais_own_service() {
        let options = openai(json!({"provider": "openai", "api_key": "sk-1"}));
        assert_eq!(options.url.as_str(), OPENAI_URL);
        assert_eq!((options.model.as_str(), options.dimensions, options.batch), (OPENAI_MODEL, None, BATCH));
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

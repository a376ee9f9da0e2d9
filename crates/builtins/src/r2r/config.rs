//! Options of the R2R server: their types, and how they are read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use url::{Host, Url};

use super::pace::Pace;
pub use super::project_name::ProjectName;
use crate::connect;
use settings::{Fields, Setting};
use upstream::api::{BuiltinOptions, Connector, ServerContext, TransportFields, header_value, require};

/// Seconds for which answers of R2R may be cached. 0 turns the cache off.
const TTL: std::ops::RangeInclusive<f64> = 0.0..=86_400.0;
/// The highest value of `ingest_max_bytes`, in bytes: 1 GiB.
const MOST_FILE_BYTES: u64 = 1 << 30;
/// The default of `ingest_max_bytes`, in bytes: 30 MiB, the limit of R2R for a PDF.
const FILE_BYTES: u64 = 30 << 20;
/// Requests within a minute that a limit can allow.
const REQUESTS: std::ops::RangeInclusive<usize> = 1..=100_000;

/// Options of the R2R server. `Debug` shows no URL: any part of one may be a secret.
#[derive(Clone)]
pub struct R2rOptions {
    /// The address of R2R, without `/v3`.
    pub url: Url,
    /// The credentials for R2R.
    pub credentials: Credentials,
    /// Names the default collection.
    pub project: ProjectName,
    /// Whether a call uses the project of its client, if the client names one.
    pub follows_client: bool,
    /// Limits the requests to R2R within a minute, for all connections together.
    pub pace: Option<Pace>,
    /// Whether the default collection is created if it is missing.
    pub auto_create_collections: bool,
    /// File that maps projects to collections. If none is set, it is in the user's state folder.
    pub collection_mapping_file: Option<PathBuf>,
    /// The folders whose files may be ingested.
    pub ingest_roots: Vec<PathBuf>,
    /// The largest file that is ingested, in bytes.
    pub max_file_bytes: u64,
    /// The meaning of `search_mode: advanced`.
    pub advanced_search: AdvancedSearch,
    /// How long answers are cached.
    pub cache_ttl: CacheTtl,
}

/// The kind of search that `search_mode: advanced` runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdvancedSearch {
    /// It searches by meaning and by words.
    #[default]
    Hybrid,
    /// The advanced search of R2R: a hybrid search for answers that its language model makes up first.
    R2r,
}

impl fmt::Debug for R2rOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("R2r").field("project", &self.project).finish_non_exhaustive()
    }
}

impl R2rOptions {
    /// Whether others can read the credentials on the network: no TLS, and R2R is on another machine.
    fn shows_secrets(&self) -> bool {
        let is_local = match self.url.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => true,
        };
        self.url.scheme() == "http" && !is_local && !matches!(self.credentials, Credentials::None)
    }
}

impl BuiltinOptions for R2rOptions {
    fn connector(&self, name: &Arc<str>, server_context: &ServerContext) -> Arc<dyn Connector> {
        connect!(super::R2r, self, name, server_context)
    }

    fn warning(&self) -> Option<&'static str> {
        self.shows_secrets().then_some("its credentials go over the network in clear text; use https")
    }

    fn per_client_setting(&self) -> Option<&'static str> {
        self.follows_client.then_some("`r2r.project_from: client`")
    }
}

/// The credentials for R2R.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// No credentials. R2R decides which account such a caller gets.
    None,
    /// A key, which neither ends nor needs to be renewed.
    ApiKey(SecretString),
    /// An account that Switchyard logs in to.
    Account {
        /// Its name.
        email: SecretString,
        /// Its password.
        password: SecretString,
    },
}

/// How long answers of R2R are cached; zero turns the cache off.
#[derive(Debug, Clone, Copy)]
pub struct CacheTtl {
    /// For searches.
    pub search: Duration,
    /// For generated answers.
    pub rag: Duration,
    /// For lists.
    pub list: Duration,
}

impl Default for CacheTtl {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { search: seconds(300), rag: seconds(120), list: seconds(60) }
    }
}

/// Reads `url` and `r2r`. Returns `None` after it reported a problem that leaves nothing to use.
pub fn read(
    given: &TransportFields<'_>,
    server: &Setting<'_>,
    folder: &Path,
) -> Option<Arc<dyn BuiltinOptions>> {
    let options = require(given, "r2r", server, "add `r2r: {project: my-app}`, which names its collection");
    let hint = "add the address of R2R, such as `url: http://localhost:7272`";
    let url = require(given, "url", server, hint);
    Some(Arc::new(r2r_options(options?, url?, folder)?))
}

fn r2r_options(setting: &Setting<'_>, url: &Setting<'_>, folder: &Path) -> Option<R2rOptions> {
    let mut fields = setting.fields()?;
    let credentials = credentials(&mut fields);
    let project = fields.require("project", "add a name, such as `project: my-app`");
    let sources = [("settings", false), ("client", true)];
    let follows_client = fields.choice("project_from", &sources).unwrap_or(false);
    let pace = fields.integer("requests_per_minute", REQUESTS).map(Pace::new);
    let auto_create_collections = fields.boolean("auto_create_collections").unwrap_or(true);
    let mapping = fields.take("collection_mapping_file").map(|setting| setting.file_path(folder));
    let roots = fields.take("ingest_roots").map(|setting| roots(&setting, folder));
    let max_file_bytes = fields.integer("ingest_max_bytes", 1..=MOST_FILE_BYTES).unwrap_or(FILE_BYTES);
    let modes = [("hybrid", AdvancedSearch::Hybrid), ("r2r", AdvancedSearch::R2r)];
    let advanced_search = fields.choice("advanced_search", &modes).unwrap_or_default();
    let cache_ttl = fields.part("cache_ttl", cache_ttl).unwrap_or_default();
    fields.finish();
    Some(R2rOptions {
        url: url.url()?,
        credentials: credentials?,
        project: project?
            .parsed("a name of at most 128 bytes, or the absolute path of the project", ProjectName::parse)?,
        follows_client,
        pace,
        auto_create_collections,
        collection_mapping_file: mapping.flatten(),
        ingest_roots: roots.unwrap_or_default(),
        max_file_bytes,
        advanced_search,
        cache_ttl,
    })
}

/// An account, a key, or nothing: R2R may run without authentication.
fn credentials(fields: &mut Fields<'_>) -> Option<Credentials> {
    let (email, password, key) = (fields.take("email"), fields.take("password"), fields.take("api_key"));
    match (email, password, key) {
        (None, None, None) => Some(Credentials::None),
        (None, None, Some(key)) => header_value(&key).map(Credentials::ApiKey),
        (Some(email), Some(password), None) => {
            Some(Credentials::Account { email: email.secret()?, password: password.secret()? })
        }
        (Some(one), None, None) | (None, Some(one), None) => {
            one.key_problem("`email` and `password` go together", Some("add the other one".into()));
            None
        }
        (_, _, Some(key)) => {
            key.key_problem("`api_key` is given beside an account", Some("keep one of the two".into()));
            None
        }
    }
}

fn cache_ttl(setting: &Setting<'_>) -> Option<CacheTtl> {
    let mut fields = setting.fields()?;
    let usual = CacheTtl::default();
    let mut seconds = |name, usual: Duration| fields.seconds(name, TTL).unwrap_or(usual);
    let (search, rag, list) =
        (seconds("search", usual.search), seconds("rag", usual.rag), seconds("list", usual.list));
    fields.finish();
    Some(CacheTtl { search, rag, list })
}

fn roots(setting: &Setting<'_>, folder: &Path) -> Vec<PathBuf> {
    setting.list().unwrap_or_default().iter().filter_map(|root| root.file_path(folder)).collect()
}

//! Options of the R2R server: their types, how they are read, and the limit for requests within a minute.
//!
//! Invariant: the limit belongs to the settings of the server and not to a connection, so a new connection does not begin a
//! new minute.
//!
//! Not here: the count of requests (`upstream::rate_limit`); logins and health checks, which are few and are not counted.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio::time::Instant;
use url::{Host, Url};

use crate::connect;
use runtime::telemetry::limit::Limit;
use settings::{FromSetting, Setting, settings, words};
use upstream::api::{BuiltinOptions, Connector, Error, RateLimit, ServerContext, header_value};

pub(crate) use super::project_name::ProjectName;

/// Seconds for which answers of R2R may be cached. 0 turns the cache off.
const TTL: RangeInclusive<f64> = 0.0..=86_400.0;
/// The highest value of `ingest_max_bytes`, in bytes: 1 GiB.
const MOST_FILE_BYTES: u64 = 1 << 30;
/// The default of `ingest_max_bytes`, in bytes: 30 MiB, the limit of R2R for a PDF.
const FILE_BYTES: u64 = 30 << 20;

settings! {
    struct Own {
        /// the account at R2R
        email: Option<SecretString>;
        /// the password of the account
        password: Option<SecretString>;
        /// a key instead of an account
        api_key: Option<SecretString>, with header_value;
        /// names the default collection, `claude-code-PROJECT`; if it is an absolute path, its last part is used
        project: ProjectName, required "add a name, such as `project: my-app`", with project;
        /// whether calls are about the [project of their client](r2r.md#the-project-of-the-client), if the client names
        /// one
        project_from: ProjectSource;
        /// requests to R2R within any 60 s, all callers together; a call
        /// [waits for its turn](r2r.md#run-r2r-safely). `limits.requests_per_minute` counts calls, cached answers
        /// included, and refuses
        requests_per_minute: Option<usize> => "no limit", in 1..=100_000;
        /// whether Switchyard creates the collection if it is missing
        auto_create_collections: bool = true;
        /// where Switchyard stores the id of the collection; `~/` is the home folder
        collection_mapping_file: Option<PathBuf> => "below the user's state folder";
        /// folders with files that may be ingested
        ingest_roots: Vec<PathBuf>;
        /// the largest such file
        ingest_max_bytes: u64 = FILE_BYTES, in 1..=MOST_FILE_BYTES;
        /// meaning of `search_mode: advanced`. `hybrid`: search by meaning and words in Switchyard; `r2r`: the
        /// [search mode of R2R](r2r.md#search), which asks a language model
        advanced_search: AdvancedSearch;
        /// how long answers are cached
        cache_ttl: CacheTtl;
    }
    check Own::check;
}

words! {
    #[derive(Clone, Copy, Default, PartialEq)]
    enum ProjectSource {
        #[default]
        Settings = "settings",
        Client = "client",
    }
}

/// Options of the R2R server. `Debug` shows no URL: any part of one may be a secret.
#[derive(Clone)]
pub(crate) struct R2rOptions {
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

words! {
    /// The kind of search that `search_mode: advanced` runs.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub(crate) enum AdvancedSearch {
        /// It searches by meaning and by words.
        #[default]
        Hybrid = "hybrid",
        /// The advanced search of R2R: a hybrid search for answers that its language model makes up first.
        R2r = "r2r",
    }
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
pub(crate) enum Credentials {
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

settings! {
    /// How long answers of R2R are cached; zero turns the cache off.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct CacheTtl {
        /// seconds that searches are cached
        pub search: Duration = Duration::from_mins(5), in TTL;
        /// seconds that answers in words are cached
        pub rag: Duration = Duration::from_mins(2), in TTL;
        /// seconds that lists are cached
        pub list: Duration = Duration::from_mins(1), in TTL;
    }
}

/// Reads `url` and `r2r`. Returns `None` after it reported a problem that leaves nothing to use.
pub(crate) fn read(server: &Setting<'_>) -> Option<Arc<dyn BuiltinOptions>> {
    let own = server.require("r2r", "add `r2r: {project: my-app}`, which names its collection");
    let own = own.and_then(|own| Own::from_setting(&own));
    let hint = "add the address of R2R, such as `url: http://localhost:7272`";
    let url = server.require("url", hint).and_then(|url| url.url());
    let own = own?;
    Some(Arc::new(R2rOptions {
        url: url?,
        credentials: own.credentials(),
        project: own.project,
        follows_client: own.project_from == ProjectSource::Client,
        pace: own.requests_per_minute.map(Pace::new),
        auto_create_collections: own.auto_create_collections,
        collection_mapping_file: own.collection_mapping_file,
        ingest_roots: own.ingest_roots,
        max_file_bytes: own.ingest_max_bytes,
        advanced_search: own.advanced_search,
        cache_ttl: own.cache_ttl,
    }))
}

impl Own {
    fn check(_: &mut Self, setting: &Setting<'_>) {
        setting.belong_together(["email", "password"]);
        let has_account = ["email", "password"].iter().any(|name| setting.member(name).is_some());
        if let Some(key) = setting.member("api_key").filter(|_| has_account) {
            key.key_problem("`api_key` is given beside an account", Some("keep one of the two".into()));
        }
    }

    /// An account, a key, or nothing: R2R may run without authentication.
    fn credentials(&self) -> Credentials {
        match (self.email.clone().zip(self.password.clone()), self.api_key.clone()) {
            (Some((email, password)), _) => Credentials::Account { email, password },
            (None, Some(key)) => Credentials::ApiKey(key),
            (None, None) => Credentials::None,
        }
    }
}

fn project(setting: &Setting<'_>) -> Option<ProjectName> {
    let expected = "a name of at most 128 bytes, or the absolute path of the project";
    setting.parsed(expected, ProjectName::parse)
}

/// The requests of the last minute. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    most: usize,
    sent: Arc<RateLimit>,
}

impl Pace {
    /// Admits `most` requests within a minute.
    pub(super) fn new(most: usize) -> Self {
        Self { most, sent: Arc::new(RateLimit::new(most)) }
    }

    /// Counts a request, or refuses it with the time to come again.
    pub(super) fn admit(&self) -> Result<(), Error> {
        let most = self.most;
        self.sent.admit(None, Instant::now()).map_err(|retry_in| {
            let detail = format!(
                "the limit of {most} requests to R2R within a minute is reached (`requests_per_minute`)"
            );
            Limit::R2rRequests.met(Error::Backend {
                status: 429,
                detail,
                retry_after: Some(retry_in),
                facts: None,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_minute_has_more_requests_than_allowed() {
        let pace = Pace::new(3);
        for _ in 0..3 {
            pace.admit().expect("there is room");
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        let refused = pace.admit().expect_err("it is full");
        assert!(
            matches!(&refused, Error::Backend { status: 429, retry_after: Some(after), .. } if *after == Duration::from_secs(30)),
            "{refused:?}"
        );
        tokio::time::advance(Duration::from_secs(30)).await;
        pace.admit().expect("the first one is a minute old");
        pace.admit().expect_err("the second one is not");
    }
}

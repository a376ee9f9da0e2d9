//! A built-in server, read: which one, and its own options.

use std::path::PathBuf;
use std::time::Duration;

use super::parse::Defaults;
use super::transport::{Given, header_value, require};
use super::{AdvancedSearch, Builtin, CacheTtl, Credentials, ProjectName, R2r, chroma, handbook, rag};
use crate::settings::{Fields, Setting};

/// One kind of built-in server.
#[derive(Clone, Copy)]
struct Kind {
    /// What stands behind `builtin`.
    word: &'static str,
    /// What it takes beside `builtin`.
    fields: &'static [&'static str],
    /// Reads that.
    read: fn(&Given<'_>, &Setting<'_>, &Defaults) -> Option<Builtin>,
}

const KINDS: [Kind; 4] = [
    Kind { word: "handbook", fields: &["handbook"], read: handbook::read },
    Kind { word: "r2r", fields: &["url", "r2r"], read: r2r },
    Kind { word: "rag", fields: &["url", "rag"], read: rag::read },
    Kind { word: "chroma", fields: &["url", "chroma"], read: chroma::read },
];

/// The fields of all of them; one that several take stands here several times.
pub(super) fn fields() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter().flat_map(|kind| kind.fields.iter().copied())
}

/// Whether any of them takes `field`.
pub(super) fn takes(field: &str) -> bool {
    field == "builtin" || fields().any(|known| known == field)
}

/// Times that answers of R2R may be kept, in seconds; 0: not at all.
const TTL: std::ops::RangeInclusive<f64> = 0.0..=86_400.0;
/// The largest file that may be taken in, in bytes: 1 GiB.
const MOST_FILE_BYTES: u64 = 1 << 30;
/// The same when nothing is said: 30 MiB, which is what R2R takes of a PDF.
const FILE_BYTES: u64 = 30 << 20;
/// Requests within a minute that a limit can allow.
const REQUESTS: std::ops::RangeInclusive<usize> = 1..=100_000;

/// Reads the options of the built-in that is asked for.
pub(super) fn from_fields(given: &Given<'_>, server: &Setting<'_>, defaults: &Defaults) -> Option<Builtin> {
    let hint = format!("add `builtin:` with one of {}", words(|_| true, ", "));
    let kind = require(given, "builtin", server, &hint)?.choice(&KINDS.map(|kind| (kind.word, kind)))?;
    refuse_others(given, &kind);
    (kind.read)(given, server, defaults)
}

fn refuse_others(given: &Given<'_>, kind: &Kind) {
    let is_foreign = |field| field != "builtin" && takes(field) && !kind.fields.contains(&field);
    for (field, setting) in given.iter().filter(|(field, _)| is_foreign(field)) {
        let message = format!("`{field}` does not go with builtin `{}`", kind.word);
        let takers = words(|other| other.fields.contains(&field), " or ");
        setting.key_problem(message, Some(format!("it belongs to builtin {takers}")));
    }
}

/// The words of the kinds that `are_meant`.
fn words(are_meant: impl Fn(&Kind) -> bool, between: &str) -> String {
    let words = KINDS.iter().filter(|kind| are_meant(kind)).map(|kind| format!("`{}`", kind.word));
    words.collect::<Vec<_>>().join(between)
}

fn r2r(given: &Given<'_>, server: &Setting<'_>, defaults: &Defaults) -> Option<Builtin> {
    let options = require(given, "r2r", server, "add `r2r: {project: my-app}`, which names its collection");
    let hint = "add the address of R2R, such as `url: http://localhost:7272`";
    let url = require(given, "url", server, hint);
    Some(Builtin::R2r(Box::new(r2r_options(options?, url?, defaults)?)))
}

fn r2r_options(setting: &Setting<'_>, url: &Setting<'_>, defaults: &Defaults) -> Option<R2r> {
    let mut fields = setting.fields()?;
    let credentials = credentials(&mut fields);
    let project = fields.require("project", "add a name, such as `project: my-app`");
    let sources = [("settings", false), ("client", true)];
    let follows_client = fields.choice("project_from", &sources).unwrap_or(false);
    let requests_per_minute = fields.integer("requests_per_minute", REQUESTS);
    let auto_create_collections = fields.boolean("auto_create_collections").unwrap_or(true);
    let mapping = fields.take("collection_mapping_file").map(|setting| setting.file_path(defaults.folder()));
    let roots = fields.take("ingest_roots").map(|setting| roots(&setting, defaults));
    let max_file_bytes = fields.integer("ingest_max_bytes", 1..=MOST_FILE_BYTES).unwrap_or(FILE_BYTES);
    let modes = [("hybrid", AdvancedSearch::Hybrid), ("r2r", AdvancedSearch::R2r)];
    let advanced_search = fields.choice("advanced_search", &modes).unwrap_or_default();
    let cache_ttl = fields.part("cache_ttl", cache_ttl).unwrap_or_default();
    fields.finish();
    Some(R2r {
        url: url.url()?,
        credentials: credentials?,
        project: project?
            .parsed("a name of at most 128 bytes, or the absolute path of the project", ProjectName::parse)?,
        follows_client,
        requests_per_minute,
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

fn roots(setting: &Setting<'_>, defaults: &Defaults) -> Vec<PathBuf> {
    setting.list().unwrap_or_default().iter().filter_map(|root| root.file_path(defaults.folder())).collect()
}

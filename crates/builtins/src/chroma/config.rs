//! Reads the options of the Chroma server.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use secrecy::ExposeSecret;
use url::Url;

use crate::chroma::{ChromaToken, DatabaseAddress, is_name};
use crate::chunk::Chunking;
use crate::embedding;
use settings::{Fields, Setting};
use upstream::api::{BuiltinOptions, Connector, ServerContext, TransportFields, header_value, require};

/// Default prefix of collection names.
const PREFIX: &str = "mcp_";
/// Largest chunk in characters: two hundred of them fit one response of Chroma.
const MOST_CHUNK: usize = 10_000;
const MOST_RESULTS: u32 = 100;
const RESULTS: u32 = 10;
const LONGEST_NAME: usize = 512;
const LONGEST_PREFIX: usize = 64;

/// Options of the Chroma server. `Debug` shows no URL, because any part of one may be a secret.
#[derive(Clone)]
pub struct ChromaOptions {
    /// The server, the database, and the credentials.
    pub place: DatabaseAddress,
    /// Whether a missing tenant or database is created.
    pub create_database: bool,
    /// Prefix of the names of Switchyard's collections. Others are neither listed nor accessible.
    pub collection_prefix: String,
    /// The embedding provider.
    pub embedding: embedding::Config,
    /// Size and overlap of chunks.
    pub chunking: Chunking,
    /// Whether texts are cut at their Markdown headings.
    pub markdown: bool,
    /// Most results of one search.
    pub max_results: u32,
}

impl fmt::Debug for ChromaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chroma").field("collection_prefix", &self.collection_prefix).finish_non_exhaustive()
    }
}

impl BuiltinOptions for ChromaOptions {
    fn connector(&self, name: &Arc<str>, server_context: &ServerContext) -> Arc<dyn Connector> {
        crate::connect!(super::VectorStore, self, name, server_context)
    }
}

/// Reads `url` and `chroma`. If they are invalid, reports why and returns `None`.
pub fn read(
    given: &TransportFields<'_>,
    server: &Setting<'_>,
    folder: &Path,
) -> Option<Arc<dyn BuiltinOptions>> {
    let hint = "add `chroma: {embedding: {provider: openai}}`, which says who makes vectors";
    let options = require(given, "chroma", server, hint);
    let hint = "add the address of Chroma, such as `url: http://localhost:8000`";
    let url = require(given, "url", server, hint).and_then(Setting::url);
    Some(Arc::new(options_at(url, options?, folder)?))
}

fn options_at(url: Option<Url>, setting: &Setting<'_>, folder: &Path) -> Option<ChromaOptions> {
    let mut fields = setting.fields()?;
    let (place, create_database) = place(&mut fields, url);
    let collection_prefix = fields.take("collection_prefix");
    let collection_prefix = collection_prefix.map_or(Some(PREFIX.into()), |setting| prefix(&setting));
    let embedding = fields.part("embedding", |setting| embedding::Config::from_settings(setting, folder));
    let chunking = fields.part("chunking", chunking);
    let max_results = fields.integer("max_results", 1..=MOST_RESULTS).unwrap_or(RESULTS);
    fields.finish();
    let place = place?;
    let (chunking, markdown) = chunking.unwrap_or((Chunking::default(), true));
    let (collection_prefix, embedding) = (collection_prefix?, embedding.unwrap_or_default());
    Some(ChromaOptions {
        place,
        create_database,
        collection_prefix,
        embedding,
        chunking,
        markdown,
        max_results,
    })
}

/// Reads the database at `url`, and whether it is created if it is missing.
pub fn place(fields: &mut Fields<'_>, url: Option<Url>) -> (Option<DatabaseAddress>, bool) {
    let mut name = |field| fields.parsed(field, "a name of 3 to 512 characters", database_name);
    let (tenant, database) = (name("tenant"), name("database"));
    let create_database = fields.boolean("create_database").unwrap_or(false);
    let token = token(fields);
    let place = url.map(DatabaseAddress::usual).map(|usual| DatabaseAddress {
        tenant: tenant.unwrap_or(usual.tenant),
        database: database.unwrap_or(usual.database),
        url: usual.url,
        token,
    });
    (place, create_database)
}

fn chunking(setting: &Setting<'_>) -> Option<(Chunking, bool)> {
    let mut fields = setting.fields()?;
    let chunking = Chunking::from_fields(&mut fields, MOST_CHUNK);
    let markdown = fields.boolean("markdown").unwrap_or(true);
    fields.finish();
    Some((chunking?, markdown))
}

/// Reads the token. A local Chroma needs none, but a proxy or Chroma Cloud may.
fn token(fields: &mut Fields<'_>) -> Option<ChromaToken> {
    let token = fields.take("token");
    let header = fields.take("token_header");
    let words = [("bearer", true), ("x-chroma-token", false)];
    let is_bearer = header.as_ref().map_or(Some(true), |header| header.choice(&words));
    if let (None, Some(header)) = (&token, &header) {
        header.key_problem("`token_header` is given without a token", Some("add `token: ${NAME}`".into()));
    }
    // An empty token counts as none, as when a variable is not set.
    let token = header_value(&token?).filter(|token| !token.expose_secret().trim().is_empty())?;
    Some(if is_bearer? { ChromaToken::Bearer(token) } else { ChromaToken::Cloud(token) })
}

/// Reads a prefix that makes valid names.
fn prefix(setting: &Setting<'_>) -> Option<String> {
    let prefix = setting.text()?;
    if prefix.is_empty() || is_name(&format!("{prefix}abc")) && prefix.len() <= LONGEST_PREFIX {
        return Some(prefix.to_owned());
    }
    let hint = "letters and digits of ASCII, `.`, `_` and `-`, the first one a letter or digit; at most 64";
    setting.problem(
        format!("{} cannot stand before the name of a collection", setting.quoted()),
        Some(hint.into()),
    );
    None
}

/// Reads a name that is valid in a URL path.
fn database_name(text: &str) -> Option<String> {
    let is_plain =
        |letter: char| !letter.is_control() && !letter.is_whitespace() && !"/\\?#%".contains(letter);
    ((3..=LONGEST_NAME).contains(&text.len()) && text.chars().all(is_plain) && text != "..")
        .then(|| text.to_owned())
}

//! Reads the options of the Chroma server.

use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::chroma::{ChromaToken, DatabaseAddress, is_name};
use crate::chunk::{BadChunking, Chunking};
use crate::embedding;
use settings::{FromSetting, Setting, settings, words};
use upstream::api::{BuiltinOptions, Connector, ServerContext, header_value};

/// Largest chunk in characters: two hundred of them fit one response of Chroma.
const MOST_CHUNK: usize = 10_000;
const LONGEST_NAME: usize = 512;
const LONGEST_PREFIX: usize = 64;

settings! {
    struct Own {
        /// prefix of the name of each collection: at most 64 letters, digits, `.`, `_`, `-`
        collection_prefix: String = "mcp_".to_owned() => "`mcp_`", with prefix;
        /// what makes the vectors: [Embeddings](embeddings.md#settings)
        embedding: embedding::Config => "`{provider: none}`", with embedding::Config::from_settings;
        /// how texts are split
        chunking: OwnChunking;
        /// results of one search, at most
        max_results: u32 = 10, in 1..=100;
    }
    flat {
        place: OwnAddress;
    }
}

settings! {
    #[derive(Debug, PartialEq)]
    struct OwnChunking {
        /// characters of a chunk, at most
        size: usize = Chunking::default().size(), in 1..=MOST_CHUNK;
        /// characters that two chunks share, at most: up to half of the size
        overlap: Option<usize> => "a fifth of the size", in 0..=MOST_CHUNK;
        /// whether texts are split at their headings
        markdown: bool = true;
    }
    check OwnChunking::check;
}

settings! {
    /// The database at a Chroma, without its URL.
    pub(crate) struct OwnAddress {
        /// the tenant that has the collections
        tenant: Option<String> => "`default_tenant`", with name;
        /// the database that has the collections
        database: Option<String> => "`default_database`", with name;
        /// whether Switchyard creates both if they are missing
        pub create_database: bool;
        /// Switchyard's credential at Chroma
        token: Option<SecretString>, with header_value;
        /// the header that carries the token: `bearer`: in `Authorization`; `x-chroma-token`: as for Chroma Cloud
        token_header: TokenHeader;
    }
    check OwnAddress::check;
}

words! {
    #[derive(Clone, Copy, Default)]
    enum TokenHeader {
        #[default]
        Bearer = "bearer",
        Cloud = "x-chroma-token",
    }
}

/// Options of the Chroma server. `Debug` shows no URL, because any part of one may be a secret.
#[derive(Clone)]
pub(crate) struct ChromaOptions {
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
pub(crate) fn read(server: &Setting<'_>) -> Option<Arc<dyn BuiltinOptions>> {
    let hint = "add `chroma: {embedding: {provider: openai}}`, which says who makes vectors";
    let own = server.require("chroma", hint).and_then(|chroma| Own::from_setting(&chroma));
    let hint = "add the address of Chroma, such as `url: http://localhost:8000`";
    let url = server.require("url", hint).and_then(|url| url.url());
    let Own { collection_prefix, embedding, chunking, max_results, place } = own?;
    Some(Arc::new(ChromaOptions {
        create_database: place.create_database,
        place: place.at(url?),
        collection_prefix,
        embedding,
        markdown: chunking.markdown,
        chunking: chunking.chunking().ok()?,
        max_results,
    }))
}

impl OwnAddress {
    /// Reports a header without a token.
    fn check(_: &mut Self, setting: &Setting<'_>) {
        if let (None, Some(header)) = (setting.member("token"), setting.member("token_header")) {
            header
                .key_problem("`token_header` is given without a token", Some("add `token: ${NAME}`".into()));
        }
    }

    /// Returns the database at `url`.
    pub(crate) fn at(self, url: Url) -> DatabaseAddress {
        let usual = DatabaseAddress::usual(url);
        // An empty token counts as none, as when a variable is not set. A local Chroma needs none, but a proxy or Chroma
        // Cloud may.
        let token = self.token.filter(|token| !token.expose_secret().trim().is_empty());
        DatabaseAddress {
            tenant: self.tenant.unwrap_or(usual.tenant),
            database: self.database.unwrap_or(usual.database),
            url: usual.url,
            token: token.map(|token| match self.token_header {
                TokenHeader::Bearer => ChromaToken::Bearer(token),
                TokenHeader::Cloud => ChromaToken::Cloud(token),
            }),
        }
    }
}

impl OwnChunking {
    fn chunking(&self) -> Result<Chunking, BadChunking> {
        Chunking::new(self.size, self.overlap.unwrap_or(self.size / 5))
    }

    fn check(&mut self, setting: &Setting<'_>) {
        if let Err(problem) = self.chunking() {
            setting.key_problem(problem.to_string(), None);
        }
    }
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
fn name(setting: &Setting<'_>) -> Option<String> {
    let is_plain =
        |letter: char| !letter.is_control() && !letter.is_whitespace() && !"/\\?#%".contains(letter);
    setting.parsed("a name of 3 to 512 characters", |text| {
        let is_valid = (3..=LONGEST_NAME).contains(&text.len()) && text.chars().all(is_plain) && text != "..";
        is_valid.then(|| text.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use settings::{Node, Problems};

    use super::*;

    #[test]
    fn settings_are_read_with_all_their_problems() {
        let read = |value| {
            let (node, problems) = (Node::from(value), Problems::default());
            let chunking = OwnChunking::from_setting(&Setting::root(&node, &problems));
            let found: Vec<_> = problems.sorted().iter().map(ToString::to_string).collect();
            if found.is_empty() { Ok(chunking.expect("no problem")) } else { Err(found.join("; ")) }
        };
        assert_eq!(read(json!({})), Ok(OwnChunking::default()));
        assert_eq!(
            read(json!({"size": 500})).map(|own| own.chunking().map(Chunking::overlap).ok()),
            Ok(Some(100))
        );
        assert_eq!(
            read(json!({"size": 300, "overlap": 300})).expect_err("refused"),
            "the overlap of 300 characters is more than half of the chunk size 300; make it at most 150"
        );
        assert_eq!(
            read(json!({"size": 0, "overlapp": 1})).expect_err("refused"),
            "overlapp: unknown key (hint: did you mean `overlap`?); size: 0 is out of range, expected 1 to 10000"
        );
    }
}

//! Reads the options of the handbook.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use crate::chroma::{DatabaseAddress, config::OwnAddress, is_name};
use crate::embedding;
use settings::{FromSetting, Setting, settings, words};
use upstream::api::{BuiltinOptions, Connector, ServerContext};

/// Most query results in the cache, unless configured.
const CACHE_SIZE: usize = 100;

settings! {
    struct Own {
        /// the folder
        path: PathBuf, required "add the folder of documents, such as `path: docs`";
        /// files and folders that are left out, by their paths from that folder
        exclude: Vec<String>, with excluded;
        /// query results that are cached
        cache_size: usize = CACHE_SIZE, in 0..=100_000;
        /// what makes the vectors for search by meaning: [Embeddings](embeddings.md#settings)
        embedding: embedding::Config, with embedding::Config::from_settings;
        /// where the vectors are stored
        store: StoreName;
        /// `url`, `collection` and more: [Handbook](handbook.md#keep-the-vectors-in-chroma)
        chroma: Option<OwnCollection> => "required for `store: chroma`";
        /// where the vectors are stored between two runs
        index_dir: Option<PathBuf>;
    }
    check Own::check;
}

settings! {
    struct OwnCollection {
        /// the Chroma server, without `/api/v2`
        url: Url, required "add the address of Chroma, such as `url: http://localhost:8000`";
        /// the collection of the handbook; NAME is the server's name
        collection: Option<String> => "`handbook_NAME_vectors`", with collection_name;
    }
    flat {
        place: OwnAddress;
    }
}

words! {
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    enum StoreName {
        #[default]
        Memory = "memory",
        Chroma = "chroma",
    }
}

/// Options of the handbook.
#[derive(Debug, Clone)]
pub struct HandbookOptions {
    /// The documents.
    pub(crate) documents: Documents,
    /// Files and folders that are excluded, by their paths from the folder.
    pub(crate) exclude: Vec<String>,
    /// Most query results in the cache.
    pub(crate) cache_size: usize,
    /// The embedding provider, if any.
    pub(crate) embedding: embedding::Config,
    /// Where the vectors are stored.
    pub(crate) keeping: VectorLocation,
    /// Folder for the vectors between two runs. `None`: they are not stored.
    pub(crate) index_dir: Option<PathBuf>,
}

/// Files that are part of the program: the path of each with `/`, and its text, compressed by gzip.
pub type EmbeddedFiles = &'static [(&'static str, &'static [u8])];

/// Documents of a handbook.
#[derive(Clone)]
pub(crate) enum Documents {
    /// A folder, absolute or relative to the configuration file.
    Folder(PathBuf),
    /// Files of the program.
    Embedded(EmbeddedFiles),
}

impl fmt::Debug for Documents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => f.debug_tuple("Folder").field(path).finish(),
            Self::Embedded(files) => write!(f, "Embedded({} files)", files.len()),
        }
    }
}

/// Storage of the vectors of a handbook.
#[derive(Debug, Clone, Default)]
pub(crate) enum VectorLocation {
    /// The memory of the gateway.
    #[default]
    Memory,
    /// A Chroma server. Requires an embedding provider.
    Chroma(Box<CollectionOptions>),
}

/// A collection at a Chroma server. `Debug` shows no URL, because any part of one may be a secret.
#[derive(Clone)]
pub(crate) struct CollectionOptions {
    /// The server, the database, and the credentials.
    pub place: DatabaseAddress,
    /// Whether a missing tenant or database is created.
    pub create_database: bool,
    /// Its name, if configured. Valid for Chroma.
    pub name: Option<String>,
}

impl fmt::Debug for CollectionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection").field("name", &self.name).finish_non_exhaustive()
    }
}

impl CollectionOptions {
    /// Returns its name, for a handbook that is called `server`.
    pub(crate) fn name_for(&self, server: &str) -> String {
        // Begins and ends with letters, because the name of a server may begin or end with any character.
        self.name.clone().unwrap_or_else(|| format!("handbook_{server}_vectors"))
    }
}

impl HandbookOptions {
    /// The options of a handbook over files of the program, which writes nothing to disk and searches by words.
    pub fn embedded(files: EmbeddedFiles) -> Self {
        Self {
            documents: Documents::Embedded(files),
            exclude: Vec::new(),
            cache_size: CACHE_SIZE,
            embedding: embedding::Config::None,
            keeping: VectorLocation::Memory,
            index_dir: None,
        }
    }
}

impl BuiltinOptions for HandbookOptions {
    fn connector(&self, name: &Arc<str>, server_context: &ServerContext) -> Arc<dyn Connector> {
        crate::connect!(super::Handbook, self, name, server_context)
    }
}

/// Reads `handbook`. If it is invalid, reports why and returns `None`.
pub(crate) fn read(server: &Setting<'_>) -> Option<Arc<dyn BuiltinOptions>> {
    let hint = "add `handbook: {path: docs}`, the folder of documents";
    let Own { path, exclude, cache_size, embedding, store, chroma, index_dir } =
        Own::from_setting(&server.require("handbook", hint)?)?;
    let keeping = match store {
        StoreName::Memory => VectorLocation::Memory,
        StoreName::Chroma => VectorLocation::Chroma(Box::new(chroma?.into())),
    };
    let documents = Documents::Folder(path);
    Some(Arc::new(HandbookOptions { documents, exclude, cache_size, embedding, keeping, index_dir }))
}

impl Own {
    /// With `store: memory`, `chroma` is allowed and ignored, so that one word turns it off.
    fn check(&mut self, setting: &Setting<'_>) {
        let chroma = setting.member("chroma");
        let Some(store) = setting.member("store") else {
            if let Some(chroma) = chroma {
                chroma.key_problem("`chroma` is given without `store`", Some("add `store: chroma`".into()));
            }
            return;
        };
        if self.store == StoreName::Memory {
            return;
        }
        let embedding = setting.member("embedding");
        let is_none =
            |embedding: Setting<'_>| embedding.member("provider").is_some_and(|it| it.is_word("none"));
        if !setting.is_any() && embedding.is_none_or(is_none) {
            let hint = "add `embedding: {provider: openai}` or `local`, or remove `store`";
            store.problem("`chroma` keeps vectors, and nobody makes any", Some(hint.into()));
        }
        if chroma.is_none() {
            let hint = "add `chroma: {url: \"http://localhost:8000\"}`, the address of Chroma";
            store
                .problem("`chroma` is where vectors are kept, and its address is missing", Some(hint.into()));
        }
    }
}

impl From<OwnCollection> for CollectionOptions {
    fn from(own: OwnCollection) -> Self {
        let create_database = own.place.create_database;
        Self { place: own.place.at(own.url), create_database, name: own.collection }
    }
}

/// Reads `exclude`: paths from the folder, with `/` between their parts.
fn excluded(setting: &Setting<'_>) -> Option<Vec<String>> {
    let path = |text: &str| {
        let path = text.trim_end_matches('/');
        path.split('/').all(|part| !["", ".", ".."].contains(&part)).then(|| path.to_owned())
    };
    let expected = "a path below the folder of the handbook, such as `drafts` or `notes/old.md`";
    Some(setting.list()?.iter().filter_map(|item| item.parsed(expected, path)).collect())
}

fn collection_name(setting: &Setting<'_>) -> Option<String> {
    let expected =
        "a name of 3 to 512 letters, digits, `.`, `_` or `-` that begins and ends with a letter or digit";
    setting.parsed(expected, |text| is_name(text).then(|| text.to_owned()))
}

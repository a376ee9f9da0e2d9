//! Reads the options of the handbook.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::chroma::{self, DatabaseAddress, is_name};
use crate::embedding;
use settings::{Fields, Setting};
use upstream::api::{BuiltinOptions, Connector, ServerContext, TransportFields, require};

/// Most query results in the cache, unless configured.
const CACHE_SIZE: usize = 100;

/// Options of the handbook.
#[derive(Debug, Clone)]
pub struct HandbookOptions {
    /// The documents.
    pub documents: Documents,
    /// Files and folders that are excluded, by their paths from the folder.
    pub exclude: Vec<String>,
    /// Most query results in the cache.
    pub cache_size: usize,
    /// The embedding provider, if any.
    pub embedding: embedding::Config,
    /// Where the vectors are stored.
    pub keeping: VectorLocation,
    /// Folder for the vectors between two runs. `None`: they are not stored.
    pub index_dir: Option<PathBuf>,
}

/// Files that are part of the program: the path of each with `/`, and its text.
pub type EmbeddedFiles = &'static [(&'static str, &'static str)];

/// Documents of a handbook.
#[derive(Clone)]
pub enum Documents {
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
pub enum VectorLocation {
    /// The memory of the gateway.
    #[default]
    Memory,
    /// A Chroma server. Requires an embedding provider.
    Chroma(Box<CollectionOptions>),
}

/// A collection at a Chroma server. `Debug` shows no URL, because any part of one may be a secret.
#[derive(Clone)]
pub struct CollectionOptions {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreName {
    Memory,
    Chroma,
}

const WORDS: [(&str, StoreName); 2] = [("memory", StoreName::Memory), ("chroma", StoreName::Chroma)];

impl BuiltinOptions for HandbookOptions {
    fn connector(&self, name: &Arc<str>, server_context: &ServerContext) -> Arc<dyn Connector> {
        crate::connect!(super::Handbook, self, name, server_context)
    }
}

/// Reads `handbook`. If it is invalid, reports why and returns `None`.
pub fn read(
    given: &TransportFields<'_>,
    server: &Setting<'_>,
    folder: &Path,
) -> Option<Arc<dyn BuiltinOptions>> {
    let hint = "add `handbook: {path: docs}`, the folder of documents";
    let mut fields = require(given, "handbook", server, hint)?.fields()?;
    let path = fields.require("path", "add the folder of documents, such as `path: docs`");
    let exclude = fields.part("exclude", excluded).unwrap_or_default();
    let cache_size = fields.integer("cache_size", 0..=100_000).unwrap_or(CACHE_SIZE);
    let embedding = match fields.take("embedding") {
        Some(setting) => embedding::Config::from_settings(&setting, folder),
        None => Some(embedding::Config::None),
    };
    let keeping = keeping(&mut fields, embedding.as_ref());
    let index_dir = fields.take("index_dir").map(|setting| setting.file_path(folder));
    fields.finish();
    let documents = Documents::Folder(path?.file_path(folder)?);
    let index_dir = index_dir.flatten();
    let (embedding, keeping) = (embedding?, keeping?);
    Some(Arc::new(HandbookOptions { documents, exclude, cache_size, embedding, keeping, index_dir }))
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

/// Reads `store` and `chroma`. With `store: memory`, `chroma` is allowed and ignored, so that one word turns
/// it off.
fn keeping(fields: &mut Fields<'_>, embedding: Option<&embedding::Config>) -> Option<VectorLocation> {
    let (store, chroma) = (fields.take("store"), fields.take("chroma"));
    let word = store.as_ref().map_or(Some(StoreName::Memory), |store| store.choice(&WORDS));
    if let (None, Some(chroma)) = (&store, &chroma) {
        chroma.key_problem("`chroma` is given without `store`", Some("add `store: chroma`".into()));
    }
    let collection = chroma.as_ref().map(collection);
    if word? == StoreName::Memory {
        return Some(VectorLocation::Memory);
    }
    let store = store?;
    if matches!(embedding, Some(embedding::Config::None)) {
        let hint = "add `embedding: {provider: openai}` or `local`, or remove `store`";
        store.problem("`chroma` keeps vectors, and nobody makes any", Some(hint.into()));
    }
    if collection.is_none() {
        let hint = "add `chroma: {url: \"http://localhost:8000\"}`, the address of Chroma";
        store.problem("`chroma` is where vectors are kept, and its address is missing", Some(hint.into()));
    }
    Some(VectorLocation::Chroma(Box::new(collection??)))
}

fn collection(setting: &Setting<'_>) -> Option<CollectionOptions> {
    let mut fields = setting.fields()?;
    let hint = "add the address of Chroma, such as `url: http://localhost:8000`";
    let url = fields.require("url", hint).and_then(|url| url.url());
    let (place, create_database) = chroma::config::place(&mut fields, url);
    let name = |text: &str| is_name(text).then(|| text.to_owned());
    let expected =
        "a name of 3 to 512 letters, digits, `.`, `_` or `-` that begins and ends with a letter or digit";
    let name = fields.take("collection").map(|setting| setting.parsed(expected, name));
    fields.finish();
    Some(CollectionOptions {
        place: place?,
        create_database,
        name: name.map_or(Some(None), |name| name.map(Some))?,
    })
}

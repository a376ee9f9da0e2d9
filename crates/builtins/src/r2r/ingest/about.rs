//! Definition of the tool: its description, its input and its output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::r2r::id::Id;
use crate::tool::{Effect, ToolInfo};

/// Input of the tool.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(in super::super) struct Arguments {
    /// The absolute path of the file, below a folder that the operator has allowed.
    #[schemars(length(min = 1, max = 4096))]
    pub(in super::super) file_path: String,
    /// The id of the collection that the document is to be in. Left out: the project's own.
    pub(in super::super) collection_id: Option<Id>,
    /// Metadata for the document; searches can filter by it. `title` becomes its title.
    pub(in super::super) metadata: Option<Map<String, Value>>,
    /// How carefully the file is read: `hi-res` also looks at layout and images and takes longest,
    /// `fast` only at text, `custom` does what the service was configured to.
    #[serde(default)]
    #[schemars(default)]
    pub(in super::super) ingestion_mode: IngestMode,
    /// Whether to be answered at once, while the document is ingested in the background.
    #[serde(default = "yes")]
    pub(in super::super) run_async: bool,
}

fn yes() -> bool {
    true
}

/// How carefully a file is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum IngestMode {
    HiRes,
    #[default]
    Fast,
    Custom,
}

impl IngestMode {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::HiRes => "hi-res",
            Self::Fast => "fast",
            Self::Custom => "custom",
        }
    }
}

/// Output of the tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(in super::super) struct Ingested {
    /// The document's id, for `r2r_monitor_task`.
    pub(in super::super) document_id: Id,
    /// `pending`: it is being ingested. `success`: it can be searched.
    pub(in super::super) status: Status,
    /// The name of the file.
    pub(in super::super) file_name: String,
    /// The collection that it is in, or will be.
    pub(in super::super) collection_id: Id,
}

/// How far an answered document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum Status {
    Pending,
    Success,
}

/// Description of the tool. It may be called twice: a document has one id, and one made of an identical file
/// stays unchanged.
pub(in super::super) const ABOUT: ToolInfo = ToolInfo {
    name: "r2r_ingest_document",
    title: "Ingest a file into R2R",
    description: "Adds a file of this machine to a collection, so that r2r_search and r2r_rag_query find \
                  what it says. By default it answers at once with status `pending`; r2r_monitor_task \
                  tells when the document can be found. A file that is there already is replaced if it \
                  changed and left alone if not, so it can be called again at any time.",
    effect: Effect::Replaces,
};

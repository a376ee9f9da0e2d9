//! The id of a document at R2R, its metadata, and the form in which it is sent.
//!
//! Invariants: one file in one collection, ingested by one identity, always has the same id, so a repeated
//! upload never makes a second document. Metadata of Switchyard takes precedence over metadata of the caller.

use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::IngestMode;
use super::source::{Faults, Sent, SourceFile};
use crate::r2r::model::has_nul;
use crate::refusal::Refusal;
use net::http::Form;

/// Most bytes of the caller's metadata. R2R accepts a megabyte, and Switchyard adds members of its own.
const MOST_METADATA: usize = 16 * 1024;
const LONGEST_TITLE: usize = 256;
/// File extensions that R2R knows (`DocumentType` of 3.6.6). It refuses all others.
const TYPES: &str = " bmp csv css doc docx eml epub gif heic htm html jpeg jpg js json md mp3 msg odt org \
                     p7s pdf png ppt pptx py rst rtf svg tiff ts tsv txt xls xlsx ";
/// Metadata member with the time of sending.
const INGESTED_AT: &str = "ingested_at";
/// Metadata member with the SHA-256 of the document.
const DIGEST: &str = "content_sha256";
/// Metadata member with the path of the file.
const SOURCE_PATH: &str = "source_path";
/// Metadata member with the ingestion mode of the document.
const INGESTION_MODE: &str = "ingestion_mode";
/// Metadata members that R2R and Switchyard set.
const OURS: [&str; 13] = [
    "id",
    "document_id",
    "owner_id",
    "collection_id",
    "collection_ids",
    "document_type",
    "version",
    "failure",
    "ingested_by",
    INGESTED_AT,
    INGESTION_MODE,
    DIGEST,
    SOURCE_PATH,
];
/// Namespace of the document ids.
const NAMESPACE: Uuid = Uuid::from_u128(0x5b0f_6f0e_6a54_4c0b_9e5d_7a3c_2d41_88aa);

/// Checks the metadata of a caller. Members that R2R or Switchyard set are refused.
pub(super) fn metadata(given: Option<Map<String, Value>>) -> Result<Map<String, Value>, Refusal> {
    let given = given.unwrap_or_default();
    let wrong = |field: &str, value: &Value| Refusal::new("invalid_argument", field, value);
    let whole = Value::Object(given);
    let size = whole.to_string().len();
    if size > MOST_METADATA {
        return Err(wrong("metadata", &whole)
            .because(&format!("The metadata has {size} bytes as JSON."))
            .valid(&format!("at most {MOST_METADATA} bytes"))
            .suggest("Keep long texts in the document."));
    }
    if has_nul(&whole) {
        return Err(wrong("metadata", &whole)
            .because("A text in the metadata has a zero character.")
            .valid("texts without it")
            .suggest("Leave it out."));
    }
    let Value::Object(given) = whole else { return Ok(Map::new()) };
    for (name, value) in &given {
        let field = format!("metadata.{name}");
        if OURS.contains(&name.as_str()) {
            return Err(wrong(&field, value)
                .because("This member is written by the gateway or the service.")
                .valid(&format!("any name but {}", OURS.join(", ")))
                .suggest("Use another name for it."));
        }
        let fits = |title: &str| {
            !title.trim().is_empty() && title.len() <= LONGEST_TITLE && !title.contains(char::is_control)
        };
        if name == "title" && !value.as_str().is_some_and(fits) {
            return Err(wrong(&field, value)
                .because("The title cannot be used.")
                .valid(&format!("a text of 1 to {LONGEST_TITLE} bytes on one line"))
                .suggest("Leave it out to have the name of the file as title."));
        }
    }
    Ok(given)
}

/// Everything about one document except its bytes.
#[derive(Debug, Clone)]
pub(super) struct DocumentForm {
    pub(super) id: Uuid,
    pub(super) collection: Uuid,
    mode: IngestMode,
    file_name: String,
    /// Metadata that stay equal as long as the file and the caller's arguments do.
    lasting: Map<String, Value>,
}

impl DocumentForm {
    /// Describes the file `name` with `digest`, for the caller's `metadata`.
    pub(super) fn new(
        id: Uuid,
        collection: Uuid,
        mode: IngestMode,
        name: &str,
        digest: &str,
        metadata: &Map<String, Value>,
    ) -> Self {
        let file_name = file_name(name);
        let mut lasting = metadata.clone();
        if let Some(Value::String(title)) = lasting.get_mut("title") {
            // R2R uses the title as the file name, and takes the type from its extension.
            let end = format!(".{}", extension(&file_name));
            if !title.to_ascii_lowercase().ends_with(&end.to_ascii_lowercase()) {
                title.push_str(&end);
            }
        }
        let ours = [
            (SOURCE_PATH, json!(name)),
            (DIGEST, json!(digest)),
            (INGESTION_MODE, json!(mode.name())),
            // The form has this field too. Some versions of R2R read one, some the other.
            ("collection_ids", json!([collection.to_string()])),
        ];
        lasting.extend(ours.map(|(name, value)| (name.to_owned(), value)));
        Self { id, collection, mode, file_name, lasting }
    }

    /// Whether `other` is a form of the same document with the same content and the same metadata.
    pub(super) fn is_equal(&self, other: &Self) -> bool {
        (self.id, &self.lasting) == (other.id, &other.lasting)
    }

    /// Whether a document with the metadata `there` has the same content and the same metadata.
    pub(super) fn is_same(&self, there: &Map<String, Value>) -> bool {
        self.lasting.iter().all(|(name, value)| there.get(name) == Some(value))
    }

    /// Whether a document with the metadata `there` has the same content. After an upload by Switchyard this
    /// is enough, because R2R may print other metadata differently, such as a number.
    pub(super) fn is_same_content(&self, there: &Map<String, Value>) -> bool {
        let digest = |members: &Map<String, Value>| members.get(DIGEST).cloned();
        digest(there).is_some() && digest(there) == digest(&self.lasting)
    }

    /// Returns the form with `source` as its file.
    pub(super) fn form(&self, source: &SourceFile, faults: &Faults, sent: Sent) -> Form {
        let mut metadata = self.lasting.clone();
        metadata.insert("ingested_by".to_owned(), json!("switchyard"));
        let now = OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default();
        metadata.insert(INGESTED_AT.to_owned(), json!(now));
        let digest = self.lasting.get(DIGEST).and_then(Value::as_str).unwrap_or_default();
        Form::new()
            .text("id", &self.id.to_string())
            .text("collection_ids", &json!([self.collection.to_string()]).to_string())
            .text("metadata", &Value::Object(metadata).to_string())
            .text("ingestion_mode", self.mode.name())
            .text("run_with_orchestration", "true")
            .file("file", &self.file_name, source.len, source.pieces(digest, faults, sent))
    }
}

/// Returns the one id of the file `name` in `collection`, ingested by `identity`.
pub(super) fn id(identity: &str, collection: Uuid, name: &str) -> Uuid {
    let whole = [identity.as_bytes(), collection.as_bytes(), name.as_bytes()];
    // The length precedes each part, so that two different inputs never have the same bytes.
    let text: Vec<u8> = whole
        .iter()
        .flat_map(|part| (part.len() as u64).to_be_bytes().into_iter().chain(part.iter().copied()))
        .collect();
    Uuid::new_v5(&NAMESPACE, &text)
}

/// Whether R2R accepts a file with this name unchanged.
pub(super) fn is_known_type(name: &str) -> bool {
    let extension = extension(name).to_ascii_lowercase();
    !extension.is_empty() && TYPES.contains(&format!(" {extension} "))
}

/// Returns the file name for R2R: the path, whose last part becomes the title. A type that R2R does not know
/// is sent as a text file. A form field would not do, because R2R limits it to a megabyte.
fn file_name(name: &str) -> String {
    if is_known_type(name) { name.to_owned() } else { format!("{name}.txt") }
}

fn extension(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or_default();
    last.rsplit_once('.').map_or("", |(_, extension)| extension)
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;

//! Checks the metadata that a client gives a document or a collection.
//!
//! Chroma stores flat metadata and silently changes much of the rest. It drops empty lists and its own keys,
//! rounds large numbers, and closes the connection at a list in collection metadata. Such values are refused
//! here, with the key. `null` means "not given", because language models write it so.

use serde_json::{Map, Value};

use super::model::Metadata;
use crate::refusal::Refusal;

/// Largest metadata as JSON, in bytes, because each chunk of a document carries them.
const MOST_BYTES: usize = 8 << 10;
const MOST_KEYS: usize = 64;
const LONGEST_KEY: usize = 128;

/// Key of the digest of a document's content and metadata.
pub(super) const DIGEST: &str = "switchyard_digest";
/// Keys that Switchyard adds to each record of a document.
pub(super) const OURS: [&str; 11] = [
    "document_id",
    "revision",
    "chunk_index",
    "chunk_count",
    "start_pos",
    "end_pos",
    "headings",
    "chunk_size",
    DIGEST,
    "created_at",
    "updated_at",
];
/// Keys that Switchyard adds to the metadata of a collection.
pub(super) const OURS_OF_COLLECTION: [&str; 4] =
    ["created_at", "embedding_provider", "embedding_model", "embedding_dimension"];

/// The object that metadata describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// A document. Its records may have lists too.
    Document,
    /// A collection.
    Collection,
}

impl Subject {
    /// Returns the keys that only Switchyard may set.
    pub(super) const fn reserved(self) -> &'static [&'static str] {
        match self {
            Self::Document => &OURS,
            Self::Collection => &OURS_OF_COLLECTION,
        }
    }

    /// Returns `all` without the keys of Switchyard.
    pub(super) fn without_reserved(self, all: &Metadata) -> Metadata {
        let mut theirs = all.clone();
        theirs.retain(|key, _| !self.reserved().contains(&key.as_str()));
        theirs
    }
}

/// Returns `without_reserved` without nulls, or refuses it.
pub(super) fn check(said: Map<String, Value>, subject: Subject) -> Result<Metadata, Refusal> {
    let said: Metadata = said.into_iter().filter(|(_, value)| !value.is_null()).collect();
    for (key, value) in &said {
        check_key(key, value, subject)?;
        check_value(key, value, subject)?;
    }
    let bytes = Value::Object(said.clone()).to_string().len();
    if said.len() > MOST_KEYS || bytes > MOST_BYTES {
        let why = format!("It has {} keys and {bytes} bytes as JSON.", said.len());
        return Err(wrong("metadata", &Value::Null, &why)
            .valid(&format!("at most {MOST_KEYS} keys and {MOST_BYTES} bytes"))
            .suggest("Say less, or put it into the content, where it can be searched."));
    }
    Ok(said)
}

fn check_key(key: &str, value: &Value, subject: Subject) -> Result<(), Refusal> {
    let field = field(key);
    let is_plain = !key.is_empty() && key.len() <= LONGEST_KEY && !key.contains(char::is_control);
    if !is_plain || key.starts_with(['$', '#']) {
        return Err(wrong(&field, value, "This is no key that Chroma keeps.")
            .valid(&format!("a key of 1 to {LONGEST_KEY} bytes that does not begin with `$` or `#`"))
            .suggest("Call it something else."));
    }
    if subject.reserved().contains(&key) || key.starts_with("chroma:") || key.starts_with("hnsw:") {
        return Err(wrong(&field, value, "This key is set by the server itself.")
            .valid(&format!("any key but {}, chroma:… and hnsw:…", subject.reserved().join(", ")))
            .suggest("Call it something else."));
    }
    Ok(())
}

fn check_value(key: &str, value: &Value, subject: Subject) -> Result<(), Refusal> {
    let is_good = match value {
        Value::Array(items) => subject == Subject::Document && is_list(items),
        value => is_plain(value),
    };
    if is_good {
        return Ok(());
    }
    let (range, suggestion) = match subject {
        Subject::Document => (
            "a text, a number, a boolean, or a list of one of them that is not empty",
            "Metadata is flat: write a key for each part of a nested value.",
        ),
        Subject::Collection => (
            "a text, a number or a boolean",
            "Metadata of a collection is flat and has no lists: join them into one text.",
        ),
    };
    Err(wrong(&field(key), value, "Chroma cannot keep such a value.").valid(range).suggest(suggestion))
}

fn is_list(items: &[Value]) -> bool {
    let kind = |value: &Value| match value {
        Value::Number(number) if number.is_f64() => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        _ => 4,
    };
    let first = items.first().map(kind);
    items.iter().all(|item| is_plain(item) && Some(kind(item)) == first) && first.is_some()
}

/// Integers in Chroma are signed and have 64 bits. Larger ones would be rounded.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Bool(_) => true,
        Value::Number(number) => number.is_i64() || number.is_f64(),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

fn field(key: &str) -> String {
    format!("metadata.{}", &key[..key.floor_char_boundary(LONGEST_KEY)])
}

fn wrong(field: &str, value: &Value, because: &str) -> Refusal {
    Refusal::new("invalid_argument", field, value).because(because)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(said: Value, subject: Subject) -> Result<Value, String> {
        let Value::Object(said) = said else { panic!("no object: {said}") };
        check(said, subject).map(Value::Object).map_err(|refusal| refusal.raw().as_str().to_owned())
    }

    #[test]
    fn metadata_that_chroma_stores_passes_unchanged() {
        let good =
            json!({"a": "x", "b": 1, "c": 1.5, "d": true, "e": ["x", "y"], "title": "T", "source": "wiki"});
        assert_eq!(of(good.clone(), Subject::Document), Ok(good));
        assert_eq!(of(json!({"a": null}), Subject::Document), Ok(json!({})));
        assert_eq!(of(json!({"a": "x"}), Subject::Collection), Ok(json!({"a": "x"})));
    }

    #[test]
    fn metadata_that_chroma_would_lose_or_refuse_is_refused_by_its_key() {
        let many: Map<_, _> = (0..65).map(|at| (format!("k{at}"), json!(1))).collect();
        for (said, says) in [
            (json!({"a": {"b": 1}}), "Metadata is flat"),
            (json!({"a": []}), "metadata.a"),
            (json!({"a": [1, "x"]}), "a list of one of them"),
            (json!({"a": [[1]]}), "metadata.a"),
            (json!({"a": u64::MAX}), "metadata.a"),
            (json!({"document_id": "x"}), "set by the server itself"),
            (json!({"hnsw:space": "l2"}), "set by the server itself"),
            (json!({"$a": 1}), "no key that Chroma keeps"),
            (json!({"": 1}), "no key that Chroma keeps"),
            (json!({"a": "x".repeat(9_000)}), "8192 bytes"),
            (Value::Object(many), "64 keys"),
        ] {
            let error = of(said, Subject::Document).expect_err("refused");
            assert!(error.contains(says), "{error}");
        }
        let error = of(json!({"a": ["x"]}), Subject::Collection).expect_err("refused");
        assert!(error.contains("no lists"), "{error}");
        of(json!({"embedding_model": "x"}), Subject::Collection).expect_err("refused");
    }
}

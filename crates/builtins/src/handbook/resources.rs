//! Documents as resources: each has a URI, by which its text can be read.
//!
//! `handbook://NAME/engineering/on%20call.md` is the file `engineering/on call.md` of the server NAME. So the
//! URIs of two handbooks never clash. A URI is looked up among the known documents. No file is opened for it,
//! so no URI can lead out of the folder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;

use super::document::Document;
use super::snapshot::{Snapshot, shown};
use json::Raw;

/// Most documents in the list. The tools find the others too. Gateways do not read longer lists.
pub(super) const MOST: usize = 10_000;
/// Media type of every document.
const MIME_TYPE: &str = "text/markdown";
/// Characters that a path may contain unescaped (RFC 3986 section 2.3), and the separator of its parts.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// URIs of the documents of one server.
#[derive(Debug, Clone)]
pub(super) struct DocumentUris {
    prefix: Arc<str>,
}

/// An entry of `resources/list`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Definition<'a> {
    uri: String,
    name: &'a str,
    title: &'a str,
    mime_type: &'static str,
    size: usize,
    annotations: Annotations,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Annotations {
    last_modified: String,
}

#[derive(Serialize)]
struct Contents<'a> {
    contents: [ResourceContent<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceContent<'a> {
    uri: &'a str,
    mime_type: &'static str,
    text: &'a str,
}

impl DocumentUris {
    /// Makes URIs for the documents of the server `name`.
    pub(super) fn of(name: &str) -> Self {
        Self { prefix: format!("handbook://{name}/").into() }
    }

    /// Returns the entries of the list, in the order of their paths.
    pub(super) fn list(&self, snapshot: &Snapshot) -> Vec<Raw> {
        let definition = |document: &Arc<Document>| self.definition(document, snapshot.modified(document).at);
        snapshot.documents.values().take(MOST).map(definition).collect()
    }

    /// Returns the document of `uri`.
    pub(super) fn find<'a>(
        &self,
        documents: &'a BTreeMap<String, Arc<Document>>,
        uri: &str,
    ) -> Option<&'a Arc<Document>> {
        let path = percent_decode_str(uri.strip_prefix(&*self.prefix)?).decode_utf8().ok()?;
        documents.get(&*path)
    }

    fn definition(&self, document: &Document, modified: SystemTime) -> Raw {
        Raw::of(&Definition {
            uri: format!("{}{}", self.prefix, utf8_percent_encode(&document.file_path, PLAIN)),
            name: &document.file_path,
            title: &document.title,
            mime_type: MIME_TYPE,
            size: document.source.len(),
            annotations: Annotations { last_modified: shown(modified) },
        })
    }
}

/// Returns the result of `resources/read`.
pub(super) fn contents(uri: &str, document: &Document) -> Raw {
    Raw::of(&Contents { contents: [ResourceContent { uri, mime_type: MIME_TYPE, text: &document.source }] })
}

//! Parts of answers as text and as lists: members of an object, and content of MCP (blocks of a result or a prompt, and
//! contents of a resource).
//!
//! Invariants: binary data is described and not shown. Control characters stay; the screen makes them visible.
//!
//! Not here: requests (`remote`, `mcp`), the results that have the content (`call`, `prompts`, `resources`), and the tables
//! that show members (`table`).

use super::super::error::CommandError;
use super::super::remote::not_a_gateway;
use json::Raw;

/// The text `member`; empty if there is none.
pub(super) fn text(of: &Raw, member: &str) -> String {
    of.text(member).map(std::borrow::Cow::into_owned).unwrap_or_default()
}

/// The number `member` as it is written.
pub(super) fn number(of: &Raw, member: &str) -> String {
    of.get(member).map_or_else(|| "-".to_owned(), |number| number.as_str().to_owned())
}

/// Whether `member` is true.
pub(super) fn is(of: &Raw, member: &str) -> bool {
    of.get_as(member).unwrap_or(false)
}

/// The elements of the list `member`, which each gateway writes.
pub(super) fn elements(document: &Raw, member: &str) -> Result<Vec<Raw>, CommandError> {
    Ok(document.get(member).ok_or_else(not_a_gateway)?.elements().collect())
}

/// The elements of the list `member`; none if there is no list.
pub(super) fn any_elements(document: &Raw, member: &str) -> Vec<Raw> {
    document.get(member).map(|list| list.elements().collect()).unwrap_or_default()
}

pub(super) fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Returns a string without its quotes, and any other value as JSON.
pub(super) fn plain(value: &Raw) -> String {
    value.as_part().text().map_or_else(|| value.as_str().to_owned(), std::borrow::Cow::into_owned)
}

/// Returns a JSON array of these values.
pub(super) fn list_of(values: &[Raw]) -> Raw {
    let texts: Vec<_> = values.iter().map(Raw::as_str).collect();
    Raw::unindexed(format!("[{}]", texts.join(",")).into())
}

/// Returns the text of one block.
pub(super) fn text_of(block: &Raw) -> String {
    match text(block, "type").as_str() {
        "text" => text(block, "text"),
        kind @ ("image" | "audio") => binary(kind, &text(block, "mimeType"), text(block, "data").len()),
        "resource_link" => format!("[link {}]", text(block, "uri")),
        "resource" => block.get("resource").map(|resource| of_resource(&resource)).unwrap_or_default(),
        kind => format!("[content of the type {kind:?}; look at it with -o json]"),
    }
}

/// Returns the text of all blocks in `content`, each on its own lines.
pub(super) fn text_of_all(content: &Raw) -> String {
    content.elements().map(|block| text_of(&block)).collect::<Vec<_>>().join("\n")
}

/// Returns the text of one content of a resource.
pub(super) fn of_resource(resource: &Raw) -> String {
    let text = |name: &str| resource.text(name).map(std::borrow::Cow::into_owned);
    match (text("text"), text("blob")) {
        (Some(text), _) => text,
        (None, Some(blob)) => binary("blob", &text("mimeType").unwrap_or_default(), blob.len()),
        (None, None) => String::new(),
    }
}

fn binary(kind: &str, media_type: &str, base64_length: usize) -> String {
    let media_type = if media_type.is_empty() { "of an unknown type" } else { media_type };
    format!("[{kind} {media_type}, {} bytes]", base64_length / 4 * 3)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_block_has_a_text() {
        let content = json!([
            {"type": "text", "text": "a\nb"},
            {"type": "image", "mimeType": "image/png", "data": "AAAAAAAA"},
            {"type": "resource_link", "uri": "memo:a"},
            {"type": "resource", "resource": {"uri": "memo:b", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "memo:c", "blob": "AAAA"}},
            {"type": "video"},
        ]);
        let expected = "a\nb\n[image image/png, 6 bytes]\n[link memo:a]\ninside\n[blob of an unknown type, 3 bytes]\n\
            [content of the type \"video\"; look at it with -o json]";
        assert_eq!(text_of_all(&Raw::of(&content)), expected);
    }
}

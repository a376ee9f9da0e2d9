//! Members of the answers of a gateway, as text and as lists.
//!
//! Not here: requests (`remote`, `mcp`), and the tables that show them (`table`).

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

//! Names of collections: the client's names, and those at Chroma.

use super::super::refusal::Refusal;

/// Lengths of a valid name at Chroma.
const LENGTH: std::ops::RangeInclusive<usize> = 3..=512;
/// Collections in one list request: each takes some kilobytes.
pub(super) const PAGE: usize = 200;

/// Returns the name at Chroma of what clients call `name` in the argument `field`.
pub(super) fn full(prefix: &str, field: &str, name: &str) -> Result<String, Refusal> {
    let full = format!("{prefix}{name}");
    if is_name(&full) {
        return Ok(full);
    }
    Err(Refusal::new("invalid_argument", field, name)
        .because(&format!("With the prefix `{prefix}` this is no name that Chroma takes."))
        .valid(&format!(
            "letters and digits of ASCII, `_`, `-` and single dots, the last one a letter or digit; {} to {} with the prefix",
            LENGTH.start(),
            LENGTH.end()
        ))
        .suggest("Use a name such as team-docs; list_collections shows what there is."))
}

/// Whether Chroma accepts the name.
pub(crate) fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    LENGTH.contains(&bytes.len())
        && is_end(bytes.first())
        && is_end(bytes.last())
        && !name.contains("..")
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_chroma_takes_with_its_prefix() {
        for (prefix, name, expected) in [
            ("mcp_", "docs", Some("mcp_docs")),
            ("mcp_", "a.b-C_9", Some("mcp_a.b-C_9")),
            ("", "abc", Some("abc")),
            ("", "ab", None),
            ("mcp_", "", None),
            ("mcp_", "docs-", None),
            ("mcp_", "team docs", None),
            ("mcp_", "a..b", None),
            ("mcp_", "документы", None),
            ("mcp_", "../x", None),
            ("_", "docs", None),
        ] {
            assert_eq!(full(prefix, "name", name).ok().as_deref(), expected, "{prefix:?} {name:?}");
        }
        assert!(full("mcp_", "name", &"x".repeat(509)).is_err());
    }
}

//! Skills: directories of resources with instructions for language models. An entry names the files with their digests.
//!
//! Invariant: digests, sizes and frontmatter are never written here; only URIs are replaced. Not here: reading the
//! files (they are resources), and checking digests (the client does, SEP-2640 "Integrity and Verification").
//!
//! Source: the extension `io.modelcontextprotocol/skills` (SEP-2640, stable since 2026-09-13).

use std::collections::HashSet;

use json::raw::Raw;

/// The extension, in the `extensions` of servers.
pub const EXTENSION: &str = "io.modelcontextprotocol/skills";
/// The file at the root of each skill. Its URI is that of the skill.
const FILE: &str = "SKILL.md";
/// The value of `resources` of a skill without stable digests.
const DYNAMIC: &str = "dynamic";

/// The beginning of the URIs of all files of the skill `uri`, with its last slash; `None` if `uri` is not that of a
/// skill.
pub fn root(uri: &str) -> Option<&str> {
    uri.strip_suffix(FILE).filter(|root| root.ends_with('/') && !root.ends_with("//"))
}

/// Returns the URI of each skill in whose directory `uri` can be, from the inner to the outer one.
pub fn around(uri: &str) -> impl Iterator<Item = String> {
    uri.rmatch_indices('/').map(|(at, _)| format!("{}{FILE}", &uri[..=at]))
}

/// Returns the reason if hosts must not load a skill with this entry.
pub fn problem(entry: &Raw) -> Option<String> {
    let uri: String = entry.get_as("uri")?;
    let Some(root) = root(&uri) else { return Some(format!("its uri does not end in /{FILE}")) };
    let frontmatter = |member| entry.get("frontmatter").and_then(|front| front.get_as::<String>(member));
    let Some(name) = frontmatter("name") else { return Some("its frontmatter has no name".to_owned()) };
    if frontmatter("description").is_none() {
        return Some("its frontmatter has no description".to_owned());
    }
    if root.trim_end_matches('/').rsplit('/').next() != Some(&name) {
        return Some("the directory in its uri is not the name in its frontmatter".to_owned());
    }
    let resources = entry.get("resources").filter(|resources| !resources.is_null());
    match resources {
        None => Some("it has no resources".to_owned()),
        Some(resources) if resources.as_part().says(DYNAMIC) => None,
        Some(resources) if resources.bytes().starts_with(b"[") => files_problem(&resources, &uri, root),
        Some(_) => Some(format!("its resources are neither an array nor \"{DYNAMIC}\"")),
    }
}

fn files_problem(files: &Raw, skill: &str, root: &str) -> Option<String> {
    let mut seen = HashSet::new();
    for file in files.elements() {
        let Some(uri) = file.get_as::<String>("uri") else { return Some("a file has no uri".to_owned()) };
        if !uri.starts_with(root) {
            return Some("a file is not in its directory".to_owned());
        }
        if !file.get_as::<String>("digest").is_some_and(|digest| is_digest(&digest)) {
            return Some("a file has no valid digest".to_owned());
        }
        if file.get_as::<u64>("size").is_none() {
            return Some("a file has no size".to_owned());
        }
        if !seen.insert(uri) {
            return Some("a file stands twice".to_owned());
        }
    }
    (!seen.contains(skill)).then(|| format!("its files lack {FILE}"))
}

fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix("sha256:").map(str::as_bytes);
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    digits.is_some_and(|digits| digits.len() == 64 && digits.iter().all(is_digit))
}

/// Returns the entry of a skill with `replaced` applied to each of its URIs.
pub fn with_uris(entry: &Raw, mut replaced: impl FnMut(&str) -> Option<String>) -> Raw {
    let files = entry.get("resources").filter(|files| files.bytes().starts_with(b"["));
    let uris = files.iter().flat_map(Raw::elements).filter_map(|file| file.get("uri"));
    let changes: Vec<(Raw, Raw)> = entry
        .get("uri")
        .into_iter()
        .chain(uris)
        .filter_map(|uri| {
            let new = replaced(&uri.read::<String>().ok()?)?;
            Some((uri, Raw::of(&new)))
        })
        .collect();
    entry.replacing(&changes)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn skill(change: impl FnOnce(&mut Value)) -> Raw {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let mut entry = json!({
            "uri": "skill://acme/refunds/SKILL.md",
            "frontmatter": {"name": "refunds", "description": "d", "x": null},
            "resources": [
                {"uri": "skill://acme/refunds/SKILL.md", "digest": digest, "size": 1},
                {"uri": "skill://acme/refunds/a/b.md", "digest": digest, "size": 0},
            ],
        });
        change(&mut entry);
        Raw::of(&entry)
    }

    #[test]
    fn an_entry_that_hosts_must_not_load_is_named_with_its_reason() {
        type Change = fn(&mut Value);
        assert_eq!(problem(&skill(|_| {})), None);
        assert_eq!(problem(&skill(|entry| entry["resources"] = json!("dynamic"))), None);
        let cases: [(Change, &str); 12] = [
            (|entry| entry["uri"] = json!("skill://refunds/skill.md"), "does not end in /SKILL.md"),
            (|entry| entry["uri"] = json!("skill://SKILL.md"), "does not end in /SKILL.md"),
            (|entry| entry["frontmatter"] = Value::Null, "no name"),
            (|entry| entry["frontmatter"]["description"] = json!(5), "no description"),
            (|entry| entry["frontmatter"]["name"] = json!("other"), "is not the name"),
            (|entry| entry["resources"] = Value::Null, "no resources"),
            (|entry| entry["resources"] = json!({}), "neither an array"),
            (|entry| entry["resources"][1]["uri"] = json!("skill://acme/other/x"), "not in its directory"),
            (|entry| entry["resources"][1]["digest"] = json!("sha256:00"), "no valid digest"),
            (|entry| entry["resources"][1]["size"] = json!(-1), "no size"),
            (|entry| entry["resources"][1] = entry["resources"][0].clone(), "stands twice"),
            (|entry| entry["resources"] = json!([]), "lack SKILL.md"),
        ];
        for (change, reason) in cases {
            let found = problem(&skill(change)).expect(reason);
            assert!(found.contains(reason), "{found}: {reason}");
        }
    }

    #[test]
    fn only_uris_of_an_entry_are_replaced() {
        let entry = skill(|_| {});
        let replaced = with_uris(&entry, |uri| Some(uri.replace("skill://", "skill://s/")));
        assert_eq!(replaced.as_str(), entry.as_str().replace("skill://", "skill://s/"));
        assert_eq!(with_uris(&entry, |_| None).as_str(), entry.as_str());
    }

    #[test]
    fn the_skills_around_a_file_are_those_of_its_directories() {
        let all: Vec<String> = around("skill://a/b/c.md").collect();
        assert_eq!(all[..2], ["skill://a/b/SKILL.md", "skill://a/SKILL.md"]);
        assert_eq!(root("skill://a/b/SKILL.md"), Some("skill://a/b/"));
        assert_eq!(
            (root("SKILL.md"), root("skill://SKILL.md"), root("skill://a/xSKILL.md")),
            (None, None, None)
        );
    }
}

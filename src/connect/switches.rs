//! Servers and tools that a person switched off beside their entries.
//!
//! | client | member of its file |
//! |---|---|
//! | Gemini CLI, Qwen Code | `mcp.allowed` and `mcp.excluded`, before that `allowMCPServers` and `excludeMCPServers` |
//! | Claude Code | `disabledMcpServers` and `disabledMcpjsonServers`, of a folder or of a file |
//! | `OpenCode`, Kilo Code | `tools`, with `SERVER_TOOL: false` |
//!
//! Sources: the pages of the table of clients, read on 2026-11-28.

use crate::config::import::json::{Json, Members, member};

/// Lists of servers that are switched off.
const OFF: [&[&str]; 4] =
    [&["mcp", "excluded"], &["excludeMCPServers"], &["disabledMcpServers"], &["disabledMcpjsonServers"]];
/// Lists of the only servers.
const ONLY: [&[&str]; 2] = [&["mcp", "allowed"], &["allowMCPServers"]];

/// Switches off what the members of `root` say, in the entries beside them.
pub(super) fn apply(root: &Members, servers: &mut Members) {
    let lists = |keys: &[&[&str]]| keys.iter().filter_map(|key| texts(root, key)).collect::<Vec<_>>();
    let (off, only) = (lists(&OFF), lists(&ONLY));
    for (name, server) in servers {
        let Json::Object(members) = server else { continue };
        let is_off = off.iter().any(|list| list.contains(&name.as_str()))
            || only.iter().any(|list| !list.contains(&name.as_str()));
        if is_off {
            members.retain(|(key, _)| !matches!(key.as_str(), "enabled" | "disabled"));
            members.push(("disabled".to_owned(), Json::Bool(true)));
        }
        let tools = tools_off(root, name);
        if !tools.is_empty() {
            members.push(("disabled_tools".to_owned(), Json::List(tools)));
        }
    }
}

/// The texts in the list at `key`.
fn texts<'j>(root: &'j Members, key: &[&str]) -> Option<Vec<&'j str>> {
    let (first, rest) = key.split_first()?;
    match (member(root, first)?, rest) {
        (Json::List(items), []) => Some(items.iter().filter_map(Json::text).collect()),
        (Json::Object(members), rest) if !rest.is_empty() => texts(members, rest),
        _ => None,
    }
}

/// The tools of `server` that the member `tools` switches off, where their names follow that of their server.
fn tools_off(root: &Members, server: &str) -> Vec<Json> {
    let Some(Json::Object(tools)) = member(root, "tools") else { return Vec::new() };
    let plain: String =
        server.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let off = tools.iter().filter(|(_, value)| *value == Json::Bool(false));
    let of_server = off.filter_map(|(name, _)| {
        let is_whole = name == &plain
            || name.split_once('*').is_some_and(|(head, rest)| {
                rest.trim_matches('*').is_empty() && format!("{plain}_").starts_with(head)
            });
        if is_whole { Some("*") } else { name.strip_prefix(plain.as_str())?.strip_prefix('_') }
    });
    of_server.map(|tool| Json::Text(tool.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::import::json;

    fn members(text: &str) -> Members {
        let Ok(Json::Object(members)) = json::read(text) else { panic!("an object: {text}") };
        members
    }

    #[test]
    fn server_switched_off_beside_its_entry_is_off_in_it() {
        let off = r#"{"command": "a", "disabled": true}"#;
        for (root, expected) in [
            (r#"{"mcp": {"excluded": ["a"]}}"#, off),
            (r#"{"mcp": {"allowed": ["b"]}}"#, off),
            (r#"{"excludeMCPServers": ["a"]}"#, off),
            (r#"{"disabledMcpServers": ["a"]}"#, off),
            (r#"{"disabledMcpjsonServers": ["a"]}"#, off),
            (r#"{"mcp": {"allowed": ["a"], "excluded": []}}"#, r#"{"command": "a", "enabled": true}"#),
            (
                r#"{"tools": {"a_x": false, "a_y": true, "b_z": false, "a_*": false}}"#,
                r#"{"command": "a", "enabled": true, "disabled_tools": ["x", "*"]}"#,
            ),
            (r#"{"tools": {"a": false}}"#, r#"{"command": "a", "enabled": true, "disabled_tools": ["*"]}"#),
            (r#"{"tools": {"*": false}}"#, r#"{"command": "a", "enabled": true, "disabled_tools": ["*"]}"#),
        ] {
            let mut servers = members(r#"{"a": {"command": "a", "enabled": true}}"#);
            apply(&members(root), &mut servers);
            assert_eq!(servers, members(&format!(r#"{{"a": {expected}}}"#)), "{root}");
        }
    }
}

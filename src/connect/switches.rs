//! Servers and tools that a person switched off beside their entries.
//!
//! | client | member of its file |
//! |---|---|
//! | Gemini CLI, Qwen Code | `mcp.allowed` and `mcp.excluded`, before that `allowMCPServers` and `excludeMCPServers` |
//! | Claude Code | `disabledMcpServers` and `disabledMcpjsonServers`, of a folder or of a file |
//! | `OpenCode`, Kilo Code | `tools`, with `SERVER_TOOL: false` |
//! | Zed | `context_servers` of its default profile. A server that the profile does not name stays as it is, because other profiles may use it |
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
    let profile = default_profile(root);
    for (name, server) in servers {
        let Json::Object(members) = server else { continue };
        let preset = profile.and_then(|(profile, _)| object(profile, &["context_servers", name]));
        let is_off = off.iter().any(|list| list.contains(&name.as_str()))
            || only.iter().any(|list| !list.contains(&name.as_str()))
            || preset.is_some_and(|preset| member(preset, "enabled") == Some(&Json::Bool(false)));
        if is_off {
            members.retain(|(key, _)| !matches!(key.as_str(), "enabled" | "disabled"));
            members.push(("disabled".to_owned(), Json::Bool(true)));
        }
        let mut tools = tools_off(root, name);
        if let Some(switches) = preset.and_then(|preset| object(preset, &["tools"])) {
            let that_are = |is_on| {
                let tools = switches.iter().filter(move |(_, value)| *value == Json::Bool(is_on));
                tools.map(|(tool, _)| Json::Text(tool.clone()))
            };
            if profile.is_some_and(|(_, has_all)| has_all) {
                tools.extend(that_are(false));
            } else {
                members.push(("enabled_tools".to_owned(), Json::List(that_are(true).collect())));
            }
        }
        if !tools.is_empty() {
            members.push(("disabled_tools".to_owned(), Json::List(tools)));
        }
    }
}

/// Whether the member `name` of a file is applied completely, because it has nothing but lists of servers.
pub(super) fn is_applied(name: &str, value: &Json) -> bool {
    let is_list = |key: &[&str]| OFF.iter().chain(&ONLY).any(|list| **list == *key);
    match value {
        Json::Object(members) => !members.is_empty() && members.iter().all(|(key, _)| is_list(&[name, key])),
        _ => is_list(&[name]),
    }
}

/// The profile that Zed begins with, and whether it has all tools that it does not name.
fn default_profile(root: &Members) -> Option<(&Members, bool)> {
    let agent = object(root, &["agent"])?;
    let name = member(agent, "default_profile").and_then(Json::text).unwrap_or("write");
    let profile = object(agent, &["profiles", name])?;
    let has_all = match member(profile, "enable_all_context_servers") {
        Some(value) => *value == Json::Bool(true),
        None => name == "write",
    };
    Some((profile, has_all))
}

/// The mapping at `keys`.
fn object<'j>(root: &'j Members, keys: &[&str]) -> Option<&'j Members> {
    keys.iter().try_fold(root, |members, key| match member(members, key)? {
        Json::Object(members) => Some(members),
        _ => None,
    })
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
            (
                r#"{"agent": {"profiles": {"write": {"context_servers": {"a": {"tools": {"x": false, "y": true}}}}}}}"#,
                r#"{"command": "a", "enabled": true, "disabled_tools": ["x"]}"#,
            ),
            (
                r#"{"agent": {"default_profile": "few", "profiles": {
                    "few": {"context_servers": {"a": {"tools": {"x": false, "y": true}}}}}}}"#,
                r#"{"command": "a", "enabled": true, "enabled_tools": ["y"]}"#,
            ),
            (
                r#"{"agent": {"default_profile": "few", "profiles": {
                    "few": {"enable_all_context_servers": true, "context_servers": {"a": {"enabled": false}}},
                    "write": {"context_servers": {"a": {"tools": {"x": false}}}}}}}"#,
                off,
            ),
            (
                r#"{"agent": {"default_profile": "ask", "profiles": {"ask": {"context_servers": {"b": {}}}}}}"#,
                r#"{"command": "a", "enabled": true}"#,
            ),
        ] {
            let mut servers = members(r#"{"a": {"command": "a", "enabled": true}}"#);
            apply(&members(root), &mut servers);
            assert_eq!(servers, members(&format!(r#"{{"a": {expected}}}"#)), "{root}");
        }
    }
}

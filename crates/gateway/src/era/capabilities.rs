//! Capabilities that Switchyard declares, from those that its servers declared.
//!
//! For all servers together: everything that Switchyard can pass on, whichever servers are connected now, because a
//! client asks only once. For one server: its own capabilities. Members of vendors keep their bytes. Invariant:
//! Switchyard declares no extension of the protocol whose methods it refuses.

use std::collections::HashSet;

use super::task;
use json::Raw;
use protocol::Version;
use protocol::feature::ToolUi;
use protocol::lifecycle::Peer;
use protocol::skill;

/// Members whose own members are merged.
const MERGED: [&str; 2] = [EXTENSIONS, "experimental"];
const EXTENSIONS: &str = "extensions";
/// Prefix of the protocol's own extensions. It is unknown whether other extensions have methods; their parts of
/// definitions, results and `_meta` pass.
const OF_PROTOCOL: &str = "io.modelcontextprotocol/";
/// Extensions of the protocol that work through Switchyard: tasks and skills, whose methods it has, and MCP Apps, which
/// are resources and members of definitions. Not included: kinds of authentication, which concern only Switchyard and
/// its clients.
const SERVED: [&str; 3] = [task::EXTENSION, skill::EXTENSION, ToolUi::EXTENSION];
/// Limits of the members and bytes of one extension.
const MAX_MEMBERS: usize = 256;
const MAX_BYTES: usize = 64 * 1024;
/// Capabilities with a list that Switchyard watches.
const LISTS: [&str; 3] = ["tools", "resources", "prompts"];

const GENEROUS: &[u8] = br#"{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"logging":{},"completions":{}}"#;

/// Merges the capabilities of all servers. If two have the same extension, the settings of the first one count.
/// Without servers, the result covers what a server may still turn out to have.
pub(crate) fn merged(peers: &[&Peer]) -> Raw {
    let generous = Raw::parse(&bytes::Bytes::from_static(GENEROUS)).unwrap_or_else(|_| Raw::empty_object());
    let unions = MERGED.map(|name| union(name, peers.iter().filter_map(|peer| peer.capabilities.get(name))));
    let [extensions, experimental] = unions;
    let unions = [extensions.map(|extensions| with_directories(extensions, peers)), experimental];
    let changes: Vec<(&str, Option<&Raw>)> =
        MERGED.iter().zip(&unions).map(|(name, union)| (*name, union.as_ref())).collect();
    generous.edit(&changes)
}

/// Declares in `extensions` that directories can be read, if one of `peers` can: the first server with skills may not.
fn with_directories(extensions: Raw, peers: &[&Peer]) -> Raw {
    let skills = extensions.get(skill::EXTENSION).filter(Raw::is_object);
    match skills.filter(|_| peers.iter().any(|peer| peer.reads_directories())) {
        Some(skills) => extensions.with(skill::EXTENSION, &skills.with("directoryRead", &Raw::of(&true))),
        None => extensions,
    }
}

/// Returns the capabilities of one server, for a client of the revision `client`.
///
/// `listChanged` is true for every list it has: Switchyard notices a change when it reconnects, even if the server
/// sends no notification. `tasks` is removed for later revisions, which do not have its methods. Other members are
/// legal in every revision.
pub(crate) fn alone(peer: &Peer, client: Version) -> Raw {
    let lists = LISTS.map(|name| {
        let own = peer.capabilities.get(name).filter(Raw::is_object);
        own.map(|own| own.with("listChanged", &Raw::of(&true)))
    });
    let extensions = peer.capabilities.get(EXTENSIONS).filter(Raw::is_object);
    let served = extensions.as_ref().and_then(without_unserved);
    let mut changes: Vec<(&str, Option<&Raw>)> = Vec::with_capacity(LISTS.len() + 2);
    if extensions.is_some() {
        changes.push((EXTENSIONS, served.as_ref()));
    }
    changes.extend(
        LISTS.iter().zip(&lists).filter(|(_, own)| own.is_some()).map(|(name, own)| (*name, own.as_ref())),
    );
    if client.is_modern() {
        changes.push(("tasks", None));
    }
    peer.capabilities.edit(&changes)
}

/// Removes the extensions that must not be declared; none if none remain.
fn without_unserved(extensions: &Raw) -> Option<Raw> {
    let names: Vec<_> = extensions.members().map(|(name, _)| name).collect();
    let unserved: Vec<_> = names.iter().filter(|name| !is_served(name)).collect();
    if unserved.is_empty() {
        return Some(extensions.clone());
    }
    let changes: Vec<(&str, Option<&Raw>)> = unserved.iter().map(|name| (name.as_ref(), None)).collect();
    (unserved.len() < names.len()).then(|| extensions.edit(&changes))
}

/// Whether the extension `name` may be declared.
fn is_served(name: &str) -> bool {
    !name.starts_with(OF_PROTOCOL) || SERVED.contains(&name)
}

/// Merges the members of all `objects` below `of`; the first value of a member counts. None if there are none.
fn union(of: &str, objects: impl Iterator<Item = Raw>) -> Option<Raw> {
    let (mut seen, mut found, mut bytes) = (HashSet::new(), Vec::new(), 0);
    for object in objects {
        for (name, value) in object.members().filter(|(name, _)| of != EXTENSIONS || is_served(name)) {
            let size = name.len() + value.bytes().len();
            if found.len() < MAX_MEMBERS
                && bytes + size <= MAX_BYTES
                && seen.insert(name.clone().into_owned())
            {
                bytes += size;
                found.push((name.into_owned(), value));
            }
        }
    }
    let members: Vec<(&str, Option<&Raw>)> =
        found.iter().map(|(name, value)| (name.as_str(), Some(value))).collect();
    (!members.is_empty()).then(|| Raw::empty_object().edit(&members))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn peer(capabilities: &str) -> Peer {
        Peer {
            version: Version::NEWEST_LEGACY,
            info: Raw::empty_object(),
            capabilities: Raw::parse(&Bytes::from(capabilities.to_owned())).expect("JSON"),
            instructions: None,
        }
    }

    #[test]
    fn all_servers_together_have_everything_and_every_extension() {
        let generous = std::str::from_utf8(GENEROUS).expect("text");
        assert_eq!(merged(&[]).as_str(), generous);
        let peers = [
            peer(r#"{"tools":{"x":1}}"#),
            peer(r#"{"extensions":{"a/b":{"n":1e400}, "c/d":null},"experimental":5}"#),
            peer(r#"{"extensions":{"a/b":{"n":2},"e\u002ff":{}},"experimental":{"y":{}},"odd":{}}"#),
        ];
        assert_eq!(
            merged(&peers.each_ref()).as_str(),
            format!(
                r#"{},"extensions":{{"a/b":{{"n":1e400}},"c/d":null,"e/f":{{}}}},"experimental":{{"y":{{}}}}}}"#,
                generous.trim_end_matches('}').to_owned() + "}"
            )
        );
    }

    #[test]
    fn an_extension_whose_methods_are_refused_here_is_not_declared() {
        let all = r#"{"io.modelcontextprotocol/skills":{},"io.modelcontextprotocol/tasks":{"a":1e400},"io.modelcontextprotocol\/ui":{},"io.modelcontextprotocol/later":{},"vendor.example/x":{}}"#;
        let own = peer(&format!(
            r#"{{"extensions":{all},"experimental":{{"io.modelcontextprotocol/skills":{{}}}}}}"#
        ));
        let named = |object: &Raw, name: &str| -> Vec<String> {
            let object = object.get(name).expect("declared");
            object.members().map(|(name, _)| name.into_owned()).collect()
        };
        let stored = [skill::EXTENSION, task::EXTENSION, "io.modelcontextprotocol/ui", "vendor.example/x"];
        for declared in
            [merged(&[&own]), alone(&own, Version::V2025_11_25), alone(&own, Version::V2026_07_28)]
        {
            assert_eq!(named(&declared, "extensions"), stored, "{}", declared.as_str());
            assert_eq!(named(&declared, "experimental"), ["io.modelcontextprotocol/skills"]);
        }
        let later = peer(r#"{"extensions":{"io.modelcontextprotocol/later":{}}}"#);
        assert_eq!(alone(&later, Version::V2026_07_28).as_str(), "{}");
        assert!(merged(&[&later]).get("extensions").is_none());
        let odd = r#"{"extensions":5}"#;
        assert_eq!(alone(&peer(odd), Version::V2026_07_28).as_str(), odd);
    }

    #[test]
    fn directories_are_declared_if_one_server_can_read_them() {
        let plain = peer(r#"{"extensions":{"io.modelcontextprotocol/skills":{"x":1e400}}}"#);
        let reads = peer(r#"{"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}"#);
        let extensions = |peers: &[&Peer]| merged(peers).get("extensions").expect("some");
        let skills = |peers: &[&Peer]| extensions(peers).get(skill::EXTENSION).expect("skills");
        assert_eq!(skills(&[&plain]).as_str(), r#"{"x":1e400}"#);
        assert_eq!(skills(&[&plain, &reads]).as_str(), r#"{"x":1e400,"directoryRead":true}"#);
    }

    #[test]
    fn endless_declarations_of_servers_are_cut() {
        let many: Vec<String> = (0..1_000).map(|at| format!(r#""x/{at}":{{}}"#)).collect();
        let many = peer(&format!(r#"{{"extensions":{{{}}}}}"#, many.join(",")));
        let extensions = merged(&[&many]).get("extensions").expect("some");
        assert_eq!(extensions.members().count(), MAX_MEMBERS);
        let large = peer(&format!(r#"{{"extensions":{{"x/l":"{}","x/s":{{}}}}}}"#, "l".repeat(MAX_BYTES)));
        assert_eq!(merged(&[&large]).get("extensions").expect("one").as_str(), r#"{"x/s":{}}"#);
    }

    #[test]
    fn one_server_alone_declares_what_it_has() {
        let own = r#"{"resources":{"subscribe":false,"v":1.0},"tools":{"listChanged":false},"prompts":true,"tasks":{"list":{}},"x":1e400}"#;
        assert_eq!(
            alone(&peer(own), Version::V2025_11_25).as_str(),
            r#"{"resources":{"subscribe":false,"v":1.0,"listChanged":true},"tools":{"listChanged":true},"prompts":true,"tasks":{"list":{}},"x":1e400}"#
        );
        assert_eq!(
            alone(&peer(own), Version::V2026_07_28).as_str(),
            r#"{"resources":{"subscribe":false,"v":1.0,"listChanged":true},"tools":{"listChanged":true},"prompts":true,"x":1e400}"#
        );
        assert_eq!(alone(&peer("{}"), Version::V2024_11_05).as_str(), "{}");
    }
}

//! Handshake and discovery as data: what Switchyard and a server declare about themselves.
//!
//! Source: `basic/lifecycle` of the legacy revisions; 2026-07-28 `server/discover`.

use serde::Serialize;

use super::feature::Kind;
use super::version::Version;
use super::{meta, skill, version};
use crate::sanitize;
use json::raw::Raw;

/// The tasks of the modern era, in the `extensions` of clients and servers.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The most bytes of a server's instructions that are kept.
pub const MAX_INSTRUCTIONS: usize = 64 * 1024;
/// The most bytes of a server's information about itself, and of its capabilities. Icons count.
const MAX_OBJECT: usize = 256 * 1024;
/// The end of instructions that were truncated.
const CUT: &str = " [cut]";

/// The declarations of a server during the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The revision that is used with it.
    pub version: Version,
    /// `{name, version, …}`, or `{}` if the server sent none.
    pub info: Raw,
    /// Its capabilities, as it printed them.
    pub capabilities: Raw,
    /// Its instructions for language models, if any.
    pub instructions: Option<String>,
}

impl Peer {
    /// The protocol era of its revision.
    pub const fn era(&self) -> version::Era {
        self.version.era()
    }

    /// Whether its instructions were longer than [`MAX_INSTRUCTIONS`].
    pub fn are_instructions_cut(&self) -> bool {
        self.instructions.as_ref().is_some_and(|text| text.len() > MAX_INSTRUCTIONS)
    }

    /// Whether it declared the capability `name`.
    pub fn offers(&self, name: &str) -> bool {
        self.capabilities.get(name).is_some_and(|value| value.is_object())
    }

    /// Whether it declared a list of `kind`.
    pub fn has(&self, kind: Kind) -> bool {
        match kind {
            Kind::Skills => self.skills().is_some(),
            _ => self.offers(kind.list().capability()),
        }
    }

    /// Whether it can read directories of resources.
    pub fn reads_directories(&self) -> bool {
        self.skills().and_then(|settings| settings.get_as("directoryRead")).unwrap_or(false)
    }

    /// Its settings of the extension for skills, if it declared the extension.
    fn skills(&self) -> Option<Raw> {
        self.capabilities.get("extensions")?.get(skill::EXTENSION).filter(Raw::is_object)
    }

    /// Whether it sends a notification when the list of `kind` has changed. There is none for skills.
    pub fn announces(&self, kind: Kind) -> bool {
        let capability = self.capabilities.get(kind.list().capability()).filter(|_| kind != Kind::Skills);
        capability.and_then(|capability| capability.get_as("listChanged")).unwrap_or(false)
    }

    /// Whether calls can run as tasks of 2025-11-25.
    pub fn makes_tasks(&self) -> bool {
        let call = || self.capabilities.get("tasks")?.get("requests")?.get("tools")?.get("call");
        call().is_some()
    }

    /// Reads the result of `initialize`; the error says what is missing.
    pub fn from_initialize(result: &Raw) -> Result<Self, String> {
        let named: String = result.get_as("protocolVersion").ok_or("no protocolVersion")?;
        let version = Version::of_server(&named).filter(|version| !version.is_modern()).ok_or_else(|| {
            let named = sanitize::shown(&named);
            format!("it wants protocol version \"{named}\", which is not spoken here")
        })?;
        Ok(Self {
            version,
            info: object("serverInfo", result.get("serverInfo"))?,
            capabilities: object("capabilities", result.get("capabilities"))?,
            instructions: result.get_as("instructions").map(bounded),
        })
    }

    /// Reads the result of `server/discover`; the error says what is missing.
    pub fn from_discover(result: &Raw) -> Result<Self, String> {
        let supported: Vec<String> = result.get_as("supportedVersions").ok_or("no supportedVersions")?;
        let version = newest_modern(&supported).ok_or_else(|| {
            format!("it speaks {}, none of which is spoken here", sanitize::listed(&supported))
        })?;
        let info = result.get("_meta").and_then(|meta| meta.get(meta::SERVER_INFO));
        Ok(Self {
            version,
            info: object("serverInfo", info.or_else(|| result.get("serverInfo")))?,
            capabilities: object("capabilities", result.get("capabilities"))?,
            instructions: result.get_as("instructions").map(bounded),
        })
    }
}

/// The newest modern revision among `names` that is spoken here.
pub(crate) fn newest_modern(names: &[String]) -> Option<Version> {
    names.iter().filter_map(|name| Version::from_name(name)).filter(|v| v.is_modern()).max()
}

/// Copies `value`, because it is kept as long as the connection and must not keep the rest of the result in memory.
fn object(name: &str, value: Option<Raw>) -> Result<Raw, String> {
    let Some(value) = value.filter(Raw::is_object) else { return Ok(Raw::empty_object()) };
    let length = value.bytes().len();
    if length > MAX_OBJECT {
        return Err(format!("its {name} has {length} bytes, at most {MAX_OBJECT} are accepted"));
    }
    Ok(value.detached())
}

/// Truncates `instructions` that are too long. With [`CUT`] they are longer than the limit.
fn bounded(mut instructions: String) -> String {
    if instructions.len() > MAX_INSTRUCTIONS {
        instructions.truncate(instructions.floor_char_boundary(MAX_INSTRUCTIONS));
        instructions.push_str(CUT);
        instructions.shrink_to_fit();
    }
    instructions
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams<'a> {
    protocol_version: &'a str,
    capabilities: &'a Raw,
    client_info: &'a Raw,
}

/// The parameters of Switchyard's `initialize`, which requests `revision`.
pub fn initialize_params(sender: &meta::Sender, revision: &str) -> Raw {
    Raw::of(&InitializeParams {
        protocol_version: revision,
        capabilities: &sender.capabilities,
        client_info: &sender.info,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_wants_an_unknown_revision_is_refused_by_name() {
        let result = Raw::of(&serde_json::json!({"protocolVersion": "2031-01-01", "capabilities": {}}));
        assert!(Peer::from_initialize(&result).expect_err("unknown").contains("2031-01-01"));
        let result = Raw::of(&serde_json::json!({"supportedVersions": ["2031-01-01", "2025-11-25"]}));
        assert!(Peer::from_discover(&result).expect_err("none modern").contains("2031-01-01"));
    }

    #[test]
    fn a_refusal_quotes_little() {
        let long = "x".repeat(1_000_000);
        let result = Raw::of(&serde_json::json!({"protocolVersion": long}));
        assert!(Peer::from_initialize(&result).expect_err("unknown").chars().count() < 300);
        let result = Raw::of(&serde_json::json!({"supportedVersions": vec![long; 10]}));
        assert!(Peer::from_discover(&result).expect_err("unknown").chars().count() < 300);
    }

    #[test]
    fn stored_server_info_is_bounded_and_does_not_retain_the_whole_result() {
        let long = "é".repeat(8 << 20);
        let result = Raw::of(&serde_json::json!({"protocolVersion": "2025-11-25", "instructions": long,
            "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}}));
        let peer = Peer::from_initialize(&result).expect("fine");
        let length = peer.instructions.as_ref().map_or(0, String::len);
        eprintln!("{length} bytes of instructions are kept of {}", long.len());
        assert!(peer.are_instructions_cut() && length <= MAX_INSTRUCTIONS + CUT.len());
        let range = result.bytes().as_ptr_range();
        for stored in [&peer.info, &peer.capabilities] {
            assert!(stored.is_object() && !range.contains(&stored.bytes().as_ptr()));
        }
        for member in ["serverInfo", "capabilities"] {
            let large =
                serde_json::json!({"protocolVersion": "2025-11-25", member: {"x": "x".repeat(MAX_OBJECT)}});
            let error = Peer::from_initialize(&Raw::of(&large)).expect_err("too large");
            assert!(error.contains(member) && error.contains("262144"), "{error}");
        }
    }

    #[test]
    fn capabilities_are_kept_as_printed() {
        let text = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"x":1.0},"odd":true},"serverInfo":{"name":"s"},"instructions":"hi"}"#;
        let peer =
            Peer::from_initialize(&Raw::parse(&bytes::Bytes::from_static(text.as_bytes())).expect("JSON"))
                .expect("fine");
        assert_eq!(peer.capabilities.as_str(), r#"{"tools":{"x":1.0},"odd":true}"#);
        assert!(peer.offers("tools") && !peer.offers("odd") && !peer.offers("prompts"));
        assert_eq!((peer.version, peer.instructions.as_deref()), (Version::V2025_06_18, Some("hi")));
    }
}

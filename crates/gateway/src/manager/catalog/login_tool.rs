//! The tool that stands for a server that waits for its first login.
//!
//! Invariants: while another server has a tool of that name, this one is offered under its qualified name, so no tool
//! loses its name to a login. A name that was the login's first is never routed to another server (`owners`). After the
//! login the name stays understood, and is not listed any more. Names fit clients in every mode, because the tool is
//! Switchyard's own. The operator hides it with `tools.deny`; `tools.allow` is about the tools of the server.
//!
//! Not here: its answer (`gateway::login_elicitation`), and when a server waits (`snapshot`).

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::config::ToolNames;
use super::super::naming::{ItemKey, Rules, SEPARATOR};
use super::super::owners::Owners;
use super::{Part, chosen};
use json::Raw;
use oauth::Per;
use protocol::Version;
use protocol::feature::Tool;
use protocol::lifecycle::Peer;
use upstream::Offer;

/// Hexadecimal digits of the hash in a name that did not fit; less than the least limit of names.
const HASH_DIGITS: usize = 16;

/// The tool with which a person logs in to one server.
#[derive(Debug, Clone)]
pub struct LoginTool {
    tool: Tool,
    /// The offer of a server that has only this tool.
    nothing: Offer,
    /// Whether the server waits for a login now.
    pub(in crate::manager) is_waiting: bool,
}

impl LoginTool {
    /// The tool of `server`, whose login is used as `per` says. None if its name cannot be that of a tool.
    pub(in crate::manager) fn new(server: &str, per: Per) -> Option<Self> {
        let unknown = Peer {
            version: Version::NEWEST_MODERN,
            info: Raw::empty_object(),
            capabilities: Raw::empty_object(),
            instructions: None,
        };
        let tool = Tool::from_definition(definition(server, per))?;
        Some(Self { tool, nothing: Offer::empty(unknown), is_waiting: true })
    }

    /// Returns the tool with another value of `is_waiting`.
    pub(in crate::manager) fn waiting(&self, is_waiting: bool) -> Self {
        Self { is_waiting, ..self.clone() }
    }

    /// The offer of a server that was not reached yet: nothing.
    pub(in crate::manager) const fn nothing(&self) -> &Offer {
        &self.nothing
    }
}

/// Chooses the names of the login tools of all parts.
pub(super) struct LoginNames<'a> {
    /// The names of all tools, if any server has a login tool.
    names: HashSet<String>,
    owners: &'a Owners,
    rules: Rules<'a>,
}

impl<'a> LoginNames<'a> {
    pub(super) fn of(parts: &[Part<'_>], rules: Rules<'a>, owners: &'a Owners) -> Self {
        let is_needed = parts.iter().any(|part| part.login.is_some());
        let parts = parts.iter().filter(|_| is_needed);
        Self { names: parts.flat_map(chosen).map(|(key, _)| key.name).collect(), owners, rules }
    }

    /// The login tool of `part`, unless the operator denies it or the server has a tool of that name.
    pub(super) fn tool<'p>(&self, part: &Part<'p>) -> Option<(ItemKey, &'p Tool)> {
        let tool = &part.login?.tool;
        let is_denied = part.choice.hidden_by(&tool.name) == Some("tools.deny");
        let name = self.name(part.server, &tool.name);
        if is_denied || chosen(part).any(|(key, _)| key.name == name) {
            return None;
        }
        Some((ItemKey { server: Arc::clone(part.server), name }, tool))
    }

    fn name(&self, server: &Arc<str>, bare: &str) -> String {
        let name =
            if self.rules.mode == ToolNames::Verbatim { fitting(bare, &self.rules) } else { bare.into() };
        let is_own = self.owners.owner(&name).is_some_and(|owner| owner == server);
        if self.names.contains(&name) && !is_own { format!("{server}{SEPARATOR}{name}") } else { name }
    }
}

/// `name`, or if it does not fit, a name that does and ends with a hash of `name`.
fn fitting(name: &str, rules: &Rules<'_>) -> String {
    if rules.fits(name) {
        return name.to_owned();
    }
    let digest: [u8; 32] = Sha256::digest(name.as_bytes()).into();
    let (plain, hash) = (rules.plain(name), &hex::encode(digest)[..HASH_DIGITS]);
    format!("{}_{hash}", &plain[..plain.len().min(rules.max_length - HASH_DIGITS - 1)])
}

fn definition(server: &str, per: Per) -> Raw {
    let title = format!("Log in to {server}");
    let whose = match per {
        Per::Shared => "everybody who uses this gateway then uses that account",
        Per::Principal => "the login is the user's own",
    };
    Raw::of(&json!({
        "name": format!("login_to_{server}"),
        "title": title,
        "description": format!(
            "The tools of the server {server} can be used after a login ({whose}). Call this tool to get the link to the login page, and let the user open it in a browser. After the login, the tools of {server} take the place of this one in the list of tools."
        ),
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false},
        "annotations": {
            "title": title,
            "readOnlyHint": true,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": false,
        },
    }))
}

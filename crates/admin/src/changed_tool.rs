//! A tool with a changed definition, as it is shown.
//!
//! Not here: finding such tools (`manager`), and approving them (`approval`).

use serde::Serialize;
use utoipa::ToSchema;

use gateway::manager::{Change, MovedTool, ServerStatus};
use json::Raw;
use protocol::JsonObject;

/// Limit of changes of one server that are shown; `changed_tool_count` counts all.
const SHOWN: usize = 100;
/// In `changed`: another server had the name before.
const OWNER: &str = "owner";

/// A tool whose definition is not the one that its server showed first or that was approved since.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChangedTool {
    /// Its name at the server.
    #[schema(examples("create_issue"))]
    tool: String,
    /// The members of its definition that changed, such as `description`. `other members` stands for all members
    /// that MCP does not name. `definition` stands for a definition of which only the registry has a hash. Empty where the server has shown more tools than are remembered. `new` stands for a tool that the server did not have before, and that a view holds. `owner` means that another server
    /// had the bare name of this tool before: until you approve, the tool is offered as `server__tool`.
    changed: Vec<&'static str>,
    /// The server that had the bare name before, where `changed` has `owner`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    previous_owner: Option<String>,
    /// Whether it is blocked: neither listed nor called until it is approved.
    held_back: bool,
    /// The views that do not have it until it is approved, because it is new to them (`new_tools: held`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held_in: Vec<String>,
    /// SHA-256 of the definition that is trusted, in its one spelling: without white space, keys sorted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    trusted_sha256: Option<String>,
    /// SHA-256 of the definition that the server shows now, in the same spelling.
    sha256: String,
    /// That definition, as the server wrote it.
    #[schema(value_type = JsonObject)]
    definition: Raw,
    /// The trusted definition as the server wrote it, if the gateway has seen it since its start. At most 256 KiB of them
    /// are kept for each server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = JsonObject)]
    trusted_definition: Option<Raw>,
}

impl ChangedTool {
    pub(super) fn all(server: &ServerStatus) -> Vec<Self> {
        let trust = &server.trust;
        let held_in =
            |tool: &str| server.held_in.get(tool).into_iter().flatten().map(ToString::to_string).collect();
        let shown = |change: &Change| Self {
            tool: change.tool.clone(),
            changed: change.changed.clone(),
            previous_owner: None,
            held_back: trust.blocks(change),
            held_in: held_in(&change.tool),
            trusted_sha256: change.trusted_sha256(),
            sha256: change.sha256(),
            definition: change.definition.clone(),
            trusted_definition: change.trusted_definition.clone(),
        };
        let mut all: Vec<Self> = trust.changes().take(SHOWN).map(shown).collect();
        for moved in &server.moved {
            Self::add_owner(&mut all, moved);
        }
        all.truncate(SHOWN);
        all
    }

    /// Adds to `all` that another server had the name of a tool before.
    fn add_owner(all: &mut Vec<Self>, moved: &MovedTool) {
        let previous_owner = Some(moved.previous_owner.to_string());
        if let Some(shown) = all.iter_mut().find(|shown| shown.tool == moved.tool) {
            shown.changed.push(OWNER);
            shown.previous_owner = previous_owner;
            return;
        }
        all.push(Self {
            tool: moved.tool.clone(),
            changed: vec![OWNER],
            previous_owner,
            held_back: false,
            held_in: Vec::new(),
            trusted_sha256: None,
            sha256: moved.sha256(),
            definition: moved.definition.clone(),
            trusted_definition: None,
        });
    }
}

//! The offer of a built-in server before its service answers.
//!
//! The tools do not depend on that service, or only in part. So a client that lists tools once sees them even
//! if the service starts later. A call then returns the failure of the service. Invariant: the offer declared
//! here equals that of the running server, except for what the server learns from its service.

use serde_json::json;

use super::tool::Tool;
use json::Raw;
use protocol::Version;
use protocol::caching::Caching;
use protocol::lifecycle::Peer;
use upstream::api::Offer;

/// Caching of the lists of built-in servers: an hour, because the servers report changes.
pub(super) const LISTS: Caching = Caching { ttl_ms: 3_600_000, is_public: true };

/// The offer of a built-in server without its service.
#[derive(Debug, Clone)]
pub(super) struct Declared {
    info: Raw,
    instructions: &'static str,
    tools: Vec<Raw>,
    /// The definitions of its resources, if it has any, and whether clients can subscribe to them.
    resources: Option<(Vec<Raw>, bool)>,
}

impl Declared {
    pub(super) fn new<'t>(
        info: Raw,
        instructions: &'static str,
        tools: impl IntoIterator<Item = &'t Tool>,
    ) -> Self {
        let tools = tools.into_iter().map(|tool| tool.definition().clone()).collect();
        Self { info, instructions, tools, resources: None }
    }

    pub(super) fn with_resources(self, definitions: Vec<Raw>, are_subscribable: bool) -> Self {
        Self { resources: Some((definitions, are_subscribable)), ..self }
    }

    pub(super) fn offer(self) -> Offer {
        let subscribable = self.resources.as_ref().map(|(_, are_subscribable)| *are_subscribable);
        let peer = peer(self.info, Some(self.instructions.to_owned()), subscribable);
        let resources = self.resources.map(|(definitions, _)| definitions).unwrap_or_default();
        Offer::of_own(peer, self.tools, resources, LISTS)
    }
}

/// Describes a built-in server. `subscribable` tells whether clients can subscribe to its resources; `None`
/// means no resources.
pub(super) fn peer(info: Raw, instructions: Option<String>, subscribable: Option<bool>) -> Peer {
    let tools = Raw::of(&json!({"listChanged": true}));
    let mut capabilities = Raw::empty_object().with("tools", &tools);
    if let Some(subscribe) = subscribable {
        let resources = Raw::of(&json!({"listChanged": true, "subscribe": subscribe}));
        capabilities = capabilities.with("resources", &resources);
    }
    Peer { version: Version::NEWEST_MODERN, info, capabilities, instructions }
}

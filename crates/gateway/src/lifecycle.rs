//! The handshakes and description of Switchyard: `initialize`, `server/discover`, `ping`.

use serde::Serialize;

use super::caller::Caller;
use super::{Gateway, absence, era};
use crate::manager::{Scope, Server, Snapshot};
use json::Raw;
use protocol::caching::Caching;
use protocol::lifecycle::Peer;
use protocol::{Era, ErrorCode, ErrorObject, Problem, Version, meta};

/// Limit of the merged instructions of servers in bytes; language models read all of it at every start.
const MAX_INSTRUCTIONS: usize = 16 * 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: &'static str,
    capabilities: Raw,
    server_info: Raw,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult {
    supported_versions: [&'static str; 1],
    capabilities: Raw,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
}

/// The result of `initialize`.
pub(super) fn initialize(gateway: &Gateway, caller: &Caller) -> Raw {
    let snapshot = gateway.manager.seen_by(Some(&caller.affinity));
    Raw::of(&InitializeResult {
        protocol_version: caller.version.as_str(),
        capabilities: capabilities(&snapshot, caller),
        server_info: server_info(&snapshot, &caller.scope),
        instructions: instructions(gateway, &snapshot, caller),
    })
}

/// The one server of `scope`, at its own endpoint, if its offer is known.
fn alone<'a>(snapshot: &'a Snapshot, scope: &Scope) -> Option<(&'a Server, &'a Peer)> {
    let Some(name) = &scope.server else { return None };
    let server = snapshot.server(name).ok()?;
    Some((server, &server.offer.as_ref()?.peer))
}

/// The description of the server, at the endpoint of one, or of Switchyard.
fn server_info(snapshot: &Snapshot, scope: &Scope) -> Raw {
    let info = alone(snapshot, scope).map(|(_, peer)| peer.info.clone());
    let info = info.filter(|info| info.get("name").is_some());
    info.unwrap_or_else(meta::own_info)
}

/// The result of `server/discover`. It names only revisions that are allowed in a request's `_meta`: a client that
/// wants an older one begins with `initialize`.
///
/// At the endpoint of one server that speaks the legacy era only, the method does not exist, as it does not at the server.
/// So clients of both eras fall back to `initialize` (2026-07-28 `basic/versioning`), and get a session of their own. The
/// number is not that of an unsupported revision, because some clients do not fall back from that.
pub(super) fn discover(gateway: &Gateway, caller: &Caller) -> Result<Raw, ErrorObject> {
    let snapshot = gateway.manager.seen_by(Some(&caller.affinity));
    if let Some(version) = only_legacy(&snapshot, &caller.scope) {
        let text = format!(
            "the server speaks protocol revision {version}, which has no server/discover: begin with initialize"
        );
        let problem =
            Problem::new(ErrorCode::MethodNotFound, text).with_mcp("supported", &[version.as_str()]);
        return Err(problem.error(caller.version.era()));
    }
    let result = Raw::of(&DiscoverResult {
        supported_versions: [Version::NEWEST_MODERN.as_str()],
        capabilities: capabilities(&snapshot, caller),
        instructions: instructions(gateway, &snapshot, caller),
    });
    let is_settled = snapshot.is_settled(&caller.scope);
    let result = era::list(era::list_form(caller.version, is_settled), &result, Caching::LEGACY);
    let meta = Raw::object(&[(meta::SERVER_INFO, &server_info(&snapshot, &caller.scope))]);
    Ok(result.with("_meta", &meta))
}

/// The revision of the one server of `scope`, if it is known to speak the legacy era only.
fn only_legacy(snapshot: &Snapshot, scope: &Scope) -> Option<Version> {
    let (server, peer) = alone(snapshot, scope)?;
    let version = peer.version;
    (!version.is_modern() && server.upstream.speaks(Era::Modern) != Some(true)).then_some(version)
}

/// The capabilities of the servers that a client sees. A server that was not reached yet may turn out to have all
/// capabilities.
fn capabilities(snapshot: &Snapshot, caller: &Caller) -> Raw {
    let logs = snapshot.is_away(&caller.scope).then(Raw::empty_object);
    let offers = snapshot.servers().iter().filter_map(|server| server.offer.as_deref());
    let (peers, capabilities) = if caller.scope.server.is_none() {
        let peers: Vec<_> = offers.map(|offer| &offer.peer).collect();
        let merged = era::capabilities::merged(&peers);
        (peers, merged)
    } else {
        let peers: Vec<_> = alone(snapshot, &caller.scope).map(|(_, peer)| peer).into_iter().collect();
        let alone = peers.first().map(|peer| era::capabilities::alone(peer, caller.version));
        (peers, alone.unwrap_or_else(|| era::capabilities::merged(&[])))
    };
    // A log message tells the client why the server is down.
    let capabilities = logs.map_or(capabilities.clone(), |logs| capabilities.with("logging", &logs));
    era::task::declared(&capabilities, caller.version, &peers)
}

/// The instructions in a scope. If its one server is down, the reason comes first. Before all stand the links to logins that
/// servers wait for.
fn instructions(gateway: &Gateway, snapshot: &Snapshot, caller: &Caller) -> Option<String> {
    let logins = gateway.login_instructions(caller);
    let absence = if logins.is_none() { absence::reason(snapshot, &caller.scope) } else { None };
    let parts = [logins, absence, Some(snapshot.instructions(&caller.scope))];
    let parts = parts.into_iter().flatten().filter(|text| !text.is_empty());
    let merged = parts.collect::<Vec<_>>().join("\n\n");
    let end = merged.floor_char_boundary(MAX_INSTRUCTIONS);
    (end > 0).then(|| merged[..end].to_owned())
}

//! `skills/list`, `skills/get` and `resources/directory/read`: skills of all servers, as directories of resources.
//!
//! The list comes from the catalog. The other two are asked of the server that has the URI, so that they are never older
//! than the server itself. Invariants: URIs in results lead back to their server; digests, sizes and frontmatter keep
//! their bytes. The methods exist where a server declares them.
//!
//! Not here: reading the files of a skill (`resources`), which server has a URI (`manager::catalog`). Source: SEP-2640.

use super::caller::Caller;
use super::resources::{self, ReadFrom};
use super::{Gateway, error, lists, unknown_method};
use crate::manager::Manager;
use crate::manager::catalog::LinkBudget;
use json::Raw;
use protocol::error::code;
use protocol::feature::Kind;
use protocol::lifecycle::Peer;
use protocol::uri::with_owner;
use protocol::{Era, ErrorObject, Reply, method, skill};
use upstream::EventSender;

/// Limit of the children of one directory whose URIs are converted. Further ones keep the URI of their server.
const MAX_CHILDREN: usize = 10_000;

/// Answers with one page of the skills.
pub(super) async fn list(
    manager: &Manager,
    caller: &Caller,
    params: Option<&Raw>,
    event_sender: &EventSender,
) -> Reply {
    declared(manager, caller, method::SKILLS_LIST, |peer| peer.has(Kind::Skills)).await?;
    lists::list(manager, caller, (Kind::Skills, params), event_sender).await
}

/// Gets the entry of one skill where it lives.
pub(super) async fn get(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&Raw>,
    event_sender: &EventSender,
) -> Reply {
    let manager = &gateway.manager;
    declared(manager, caller, method::SKILLS_GET, |peer| peer.has(Kind::Skills)).await?;
    let (uri, params) = resources::read_params(caller, params)?;
    let found = resources::at(gateway, caller, (method::SKILLS_GET, &uri, params), event_sender).await;
    let (place, result) = found.map_err(|refusal| missing(refusal, &uri))?;
    let Some(entry) = result.get("skill") else { return Ok(result) };
    let checked = manager.check_skill(caller.viewer(), &place.server, &entry);
    checked.map_err(|changed| error::object(&changed, caller.version.era()))?;
    let mut files = Vec::new();
    let _ = skill::with_uris(&entry, |file| {
        files.push(file.to_owned());
        None
    });
    let owned = is_owned(gateway, caller, (&place, &uri), &files);
    let exposed = |file: &str| owned.then(|| with_owner(file, &place.server));
    Ok(result.replacing(&[(entry.clone(), skill::with_uris(&entry, exposed))]))
}

/// Reads the direct children of a directory where it lives.
pub(super) async fn read_directory(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&Raw>,
    event_sender: &EventSender,
) -> Reply {
    declared(&gateway.manager, caller, method::DIRECTORY_READ, Peer::reads_directories).await?;
    let (uri, params) = resources::read_params(caller, params)?;
    let found = resources::at(gateway, caller, (method::DIRECTORY_READ, &uri, params), event_sender).await;
    let (place, result) = found.map_err(|refusal| missing(refusal, &uri))?;
    let children = result.get("resources");
    let children = children.iter().flat_map(Raw::elements).take(MAX_CHILDREN);
    let uris: Vec<(Raw, String)> = children
        .filter_map(|child| child.get("uri"))
        .filter_map(|uri| Some((uri.clone(), uri.read().ok()?)))
        .collect();
    let texts: Vec<String> = uris.iter().map(|(_, text)| text.clone()).collect();
    if !is_owned(gateway, caller, (&place, &uri), &texts) {
        return Ok(result);
    }
    let owned = |(uri, text): &(Raw, String)| (uri.clone(), Raw::of(&with_owner(text, &place.server)));
    Ok(result.replacing(&uris.iter().map(owned).collect::<Vec<_>>()))
}

/// Checks that a server that `caller` sees declares `what`, once all servers were reached.
async fn declared(
    manager: &Manager,
    caller: &Caller,
    method: &str,
    what: impl Fn(&Peer) -> bool,
) -> Result<(), ErrorObject> {
    manager.listable(&caller.scope).await;
    let snapshot = manager.seen_by(Some(&caller.affinity));
    if snapshot.has(&caller.scope, what) { Ok(()) } else { Err(unknown_method(method, caller)) }
}

/// The error for a skill or directory that no server has. In both eras its code is -32602.
fn missing(refusal: ErrorObject, uri: &str) -> ErrorObject {
    if refusal.code() == code::RESOURCE_NOT_FOUND { error::no_resource(Era::Modern, uri) } else { refusal }
}

/// Whether the URIs that `place` sent are shown with the name of its server: the client used such a URI, or another
/// server has one of them. All of a directory have the same form, because clients resolve paths in it.
fn is_owned(
    gateway: &Gateway,
    caller: &Caller,
    (place, requested): (&ReadFrom, &str),
    uris: &[String],
) -> bool {
    let snapshot = gateway.manager.seen_by(Some(&caller.affinity));
    let mut budget = LinkBudget::default();
    place.uri != requested
        || snapshot.can_clash(&caller.scope)
            && uris
                .iter()
                .any(|uri| snapshot.exposed_uri(&caller.scope, (&place.server, uri), &mut budget).is_some())
}

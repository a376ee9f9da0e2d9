//! Routing: from a name or a URI to the request for its server.
//!
//! Invariant: each request is found in one immutable [`Snapshot`]. While servers connect for the first time,
//! an unknown name may still become known. So the error "unknown" waits for them.
//!
//! Not here: sending the request ([`Manager::call`]), the meaning of names and URIs (`catalog`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::catalog::{Route, ServerResource, UriServers};
use super::client_snapshots::Viewer;
use super::error::{Error, ItemKind};
use super::snapshot::{Scope, Snapshot};
use super::{Manager, failed_at};
use crate::manager::routed_request::{RoutedRequest, completion_call, read_call};
use json::Raw;
use protocol::{method, sanitize};
use runtime::worker::now;
use upstream::{Affinity, Call, Subject, Watching};

/// The subject of a completion: an argument of a prompt, or a variable of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// `ref/prompt`, by its name.
    Prompt(String),
    /// `ref/resource`, by its template or URI.
    Resource(String),
}

impl Manager {
    /// Routes a `call` of the tool that `viewer` calls `name`. Waits for servers that are still starting, at
    /// most for `patience`.
    pub async fn tool_request(
        &self,
        viewer: impl Into<Viewer<'_>>,
        name: &str,
        call: impl Into<Box<Call>>,
        patience: Option<Duration>,
    ) -> Result<RoutedRequest, Error> {
        let started = now();
        let viewer = viewer.into();
        let (snapshot, route) = self.named(viewer, (ItemKind::Tool, name), patience).await;
        let routed = RoutedRequest::of_tool((&snapshot, viewer.scope), route?, name, call.into())?;
        Ok(RoutedRequest { started, ..routed })
    }

    /// Routes a `call` that gets the prompt that `viewer` calls `name`, like [`Manager::tool_request`].
    pub(crate) async fn prompt_request(
        &self,
        viewer: impl Into<Viewer<'_>>,
        name: &str,
        call: impl Into<Box<Call>>,
        patience: Option<Duration>,
    ) -> Result<RoutedRequest, Error> {
        let started = now();
        let (snapshot, route) = self.named(viewer.into(), (ItemKind::Prompt, name), patience).await;
        let route = route?;
        let call = read_call(call.into(), "name", name, &route.subject);
        let routed = RoutedRequest::new(&snapshot, &route.server, Arc::clone(&route.subject), call)?;
        Ok(RoutedRequest { started, ..routed })
    }

    /// Makes a request of the client of `call` about `subject` at `server`, whose time begins now.
    pub(crate) fn request_at(
        &self,
        server: &str,
        subject: Arc<str>,
        call: Box<Call>,
    ) -> Result<RoutedRequest, Error> {
        RoutedRequest::new(&self.seen_by(call.affinity.as_ref()), server, subject, call)
    }

    /// Looks up the server of `request` again, for a further request of the same call. Meanwhile the configuration may be
    /// another one, and the tool may be held.
    pub(crate) fn renewed(&self, request: RoutedRequest) -> Result<RoutedRequest, Error> {
        let snapshot = self.seen_by(request.call.affinity.as_ref());
        let server = Arc::clone(snapshot.server(request.server_name())?);
        request.check_view(&server)?;
        Ok(RoutedRequest { server, ..request })
    }

    /// Returns the requests of `call`, which reads `uri`. If no server lists it, these are several to try in order, the
    /// best first.
    pub(crate) async fn resource_requests(
        &self,
        viewer: impl Into<Viewer<'_>>,
        uri: &str,
        call: &Call,
    ) -> Result<Vec<RoutedRequest>, Error> {
        let viewer = viewer.into();
        let look = |snapshot: &Snapshot| match call.method.as_str() {
            method::SKILLS_GET => snapshot.skill_places(viewer.scope, uri),
            method::DIRECTORY_READ => snapshot.directory_places(viewer.scope, uri),
            _ => snapshot.places(viewer.scope, uri),
        };
        let (snapshot, places) = self.when_settled(viewer, None, look).await;
        let request = |place: &ServerResource| {
            let call = read_call(Box::new(call.clone()), "uri", uri, &place.uri);
            RoutedRequest::new(&snapshot, &place.server, place.uri.as_str().into(), call)
        };
        some(places?, uri)?.iter().map(request).collect()
    }

    /// Checks that the entry of a skill which `server` sent outside of its list is not another one than the trusted one.
    pub(crate) fn check_skill(&self, viewer: Viewer<'_>, server: &str, entry: &Raw) -> Result<(), Error> {
        let snapshot = self.seen_by(viewer.affinity);
        let found = snapshot.server(server)?;
        let uri: String = entry.get_as("uri").unwrap_or_default();
        if found.trust.allows(&uri, entry) {
            return Ok(());
        }
        let (server, changed) = (Arc::clone(&found.upstream.config().name), Vec::new());
        Err(Error::ToolChanged { server, tool: uri, changed })
    }

    /// Returns the servers that have `uri`. If no server lists it, these are the ones that may have it, the
    /// best first.
    pub async fn places(
        &self,
        viewer: impl Into<Viewer<'_>>,
        uri: &str,
        patience: Option<Duration>,
    ) -> Result<Vec<ServerResource>, Error> {
        let viewer = viewer.into();
        let (_, found) =
            self.when_settled(viewer, patience, |snapshot| snapshot.places(viewer.scope, uri)).await;
        some(found?, uri)
    }

    /// Subscribes a client to `subject` until the [`Watching`] is dropped, and returns it with the server's
    /// answer. The client is named by its principal and its affinity. The notifications come out of
    /// [`Manager::notices`].
    pub async fn watch(
        &self,
        client: (&Arc<str>, Option<&Affinity>),
        server: &str,
        subject: Subject,
    ) -> Result<Result<(Raw, Watching), upstream::WatchRefusal>, Error> {
        let upstream = self.snapshot().server(server)?.upstream.clone();
        let config = upstream.config();
        let watched = upstream.watch(client, subject, Instant::now() + config.timeout).await;
        watched.map_err(|source| failed_at(&upstream, None, source))
    }

    /// Returns the requests that complete an argument of `reference`, like [`Manager::resource_requests`].
    pub(crate) async fn completion_requests(
        &self,
        viewer: impl Into<Viewer<'_>>,
        reference: &Reference,
        call: &Call,
    ) -> Result<Vec<RoutedRequest>, Error> {
        match reference {
            Reference::Prompt(name) => {
                let (snapshot, route) = self.named(viewer.into(), (ItemKind::Prompt, name), None).await;
                let route = route?;
                let call = completion_call(Box::new(call.clone()), "name", name, &route.subject);
                Ok(vec![RoutedRequest::new(&snapshot, &route.server, Arc::clone(&route.subject), call)?])
            }
            Reference::Resource(uri) => {
                let viewer = viewer.into();
                let look = |snapshot: &Snapshot| snapshot.template_places(viewer.scope, uri);
                let (snapshot, places) = self.when_settled(viewer, None, look).await;
                let request = |place: &ServerResource| {
                    let call = completion_call(Box::new(call.clone()), "uri", uri, &place.uri);
                    RoutedRequest::new(&snapshot, &place.server, place.uri.as_str().into(), call)
                };
                some(places?, uri)?.iter().map(request).collect()
            }
        }
    }

    /// Returns the owner of the tool `name` for `viewer`. Waits for servers that are still starting.
    pub async fn route(&self, viewer: impl Into<Viewer<'_>>, name: &str) -> Result<Arc<Route>, Error> {
        self.named(viewer.into(), (ItemKind::Tool, name), None).await.1
    }

    async fn named(
        &self,
        viewer: Viewer<'_>,
        (kind, name): (ItemKind, &str),
        patience: Option<Duration>,
    ) -> (Arc<Snapshot>, Result<Arc<Route>, Error>) {
        let scope = viewer.scope;
        self.when_settled(viewer, patience, |snapshot| snapshot.route(scope, kind, name)).await
    }

    /// Returns what `look` finds, and the snapshot in which it looked last. If it finds nothing while servers connect for
    /// the first time, this waits for them, at most until `patience` ends.
    async fn when_settled<T: Finding>(
        &self,
        viewer: Viewer<'_>,
        patience: Option<Duration>,
        look: impl Fn(&Snapshot) -> T,
    ) -> (Arc<Snapshot>, T) {
        // Usually the name is found, and no wait has to be prepared.
        let snapshot = self.seen_by(viewer.affinity);
        let found = look(&snapshot);
        if !found.may_come(&snapshot, viewer.scope) {
            return (snapshot, found);
        }
        drop(snapshot); // it would keep an old one while this waits
        let patience = self.patience_ends(patience);
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            let snapshot = self.seen_by(viewer.affinity);
            let found = look(&snapshot);
            if !found.may_come(&snapshot, viewer.scope) {
                return (snapshot, found);
            }
            if !matches!(tokio::time::timeout_at(patience, changes.changed()).await, Ok(Ok(()))) {
                return (snapshot, found);
            }
        }
    }

    fn patience_ends(&self, patience: Option<Duration>) -> Instant {
        patience.map_or_else(|| self.grace_ends(), |limit| self.grace_ends().min(Instant::now() + limit))
    }
}

fn some(places: UriServers, uri: &str) -> Result<Vec<ServerResource>, Error> {
    let ambiguous = |candidates| Error::AmbiguousUri { uri: sanitize::uri(uri), candidates };
    let places = places.into_vec().map_err(ambiguous)?;
    if places.is_empty() { Err(Error::resource_not_found(uri)) } else { Ok(places) }
}

/// Whether a better result is possible once more servers are known.
trait Finding {
    fn may_come(&self, snapshot: &Snapshot, scope: &Scope) -> bool;
}

impl Finding for Result<Arc<Route>, Error> {
    fn may_come(&self, snapshot: &Snapshot, scope: &Scope) -> bool {
        match self {
            Err(Error::NameNotFound { server: None, .. }) => !snapshot.is_settled(scope),
            Err(Error::NameNotFound { server: Some(server), .. } | Error::Upstream { server, .. }) => {
                is_connecting(server, snapshot)
            }
            _ => false,
        }
    }
}

impl Finding for Result<UriServers, Error> {
    fn may_come(&self, snapshot: &Snapshot, scope: &Scope) -> bool {
        match self {
            Ok(places) => places.are_guessed() && !snapshot.is_settled(scope),
            Err(Error::Upstream { server, .. }) => is_connecting(server, snapshot),
            Err(_) => false,
        }
    }
}

/// Whether `server`, the only one that may have the subject, has not ended its first attempt to connect.
fn is_connecting(server: &str, snapshot: &Snapshot) -> bool {
    snapshot.server(server).is_ok_and(|found| !found.settled)
}

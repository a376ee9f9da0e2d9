//! The servers for a URI: of a resource, a template, a skill or a directory.
//!
//! Not here: which server has a URI (`catalog`).

use std::sync::Arc;

use super::{Scope, Server, Snapshot};
use crate::manager::catalog::{LinkBudget, Resources, ServerResource, UriServers};
use crate::manager::error::Error;
use protocol::feature::Kind;
use protocol::lifecycle::Peer;

impl Snapshot {
    /// Returns the servers for `uri` in a scope. A single server is asked for any URI.
    pub(in crate::manager) fn places(&self, scope: &Scope, uri: &str) -> Result<UriServers, Error> {
        self.places_in(scope, (Kind::Resources, uri), |resources| resources.places(uri))
    }

    /// Returns the servers for the completion of a template or a URI.
    pub(in crate::manager) fn template_places(&self, scope: &Scope, uri: &str) -> Result<UriServers, Error> {
        self.places_in(scope, (Kind::Templates, uri), |resources| resources.template(uri))
    }

    fn places_in(
        &self,
        scope: &Scope,
        (kind, uri): (Kind, &str),
        look: impl FnOnce(&Resources) -> UriServers,
    ) -> Result<UriServers, Error> {
        let found = match &scope.server {
            None => match look(self.catalog.resources()) {
                // The URI names a server that may have it, so no other server is asked.
                guessed if guessed.are_guessed() => match self.failure_behind(kind, uri) {
                    Some(failure) => return Err(failure),
                    None => guessed,
                },
                known => known,
            },
            Some(name) => {
                let server = self.server(name)?.upstream.config().name.clone();
                UriServers::Listed(ServerResource { server, uri: uri.to_owned() })
            }
        };
        // A template that the view has may make URIs that it has not.
        Ok(found.only(|place| self.offers_uri(kind, &place.server, &place.uri)))
    }

    /// Whether clients may read the resource `uri` of `server`, whether it is listed or not.
    pub(crate) fn sees_resource(&self, server: &str, uri: &str) -> bool {
        self.offers_uri(Kind::Resources, server, uri)
    }

    fn offers_uri(&self, kind: Kind, server: &str, uri: &str) -> bool {
        self.server_called(server).is_some_and(|server| server.offers(kind, uri))
    }

    /// Returns the servers for the skill `uri` in a scope: those of its places that declare skills.
    pub(in crate::manager) fn skill_places(&self, scope: &Scope, uri: &str) -> Result<UriServers, Error> {
        Ok(self.places(scope, uri)?.only(|place| self.declares(place, |peer| peer.has(Kind::Skills))))
    }

    /// Returns the servers for the directory `uri` in a scope: those of its places that read directories. A directory
    /// of a skill belongs to the server of the skill.
    pub(in crate::manager) fn directory_places(&self, scope: &Scope, uri: &str) -> Result<UriServers, Error> {
        let found = match self.places(scope, uri)? {
            guessed if guessed.are_guessed() => {
                let inside = self.places(scope, &format!("{uri}/"))?.without_end("/");
                if inside.are_guessed() { guessed } else { inside }
            }
            known => known,
        };
        Ok(found.only(|place| self.declares(place, Peer::reads_directories)))
    }

    fn declares(&self, place: &ServerResource, what: impl Fn(&Peer) -> bool) -> bool {
        self.server_called(&place.server)
            .and_then(|server| server.offer.as_ref())
            .is_some_and(|offer| what(&offer.peer))
    }

    /// Whether a server of a scope declares `what`.
    pub(crate) fn has(&self, scope: &Scope, what: impl Fn(&Peer) -> bool) -> bool {
        let has = |server: &Arc<Server>| server.offer.as_ref().is_some_and(|offer| what(&offer.peer));
        self.servers_in(scope).iter().any(has)
    }

    /// Whether servers of a scope can have equal URIs, so that [`Snapshot::exposed_uri`] may return one.
    pub(crate) fn can_clash(&self, scope: &Scope) -> bool {
        scope.server.is_none() && self.catalog.resources().can_clash()
    }

    /// Returns the URI under which clients of a scope reach `uri` of `server`, if it differs. The links of
    /// one message share `budget`.
    pub(crate) fn exposed_uri(
        &self,
        scope: &Scope,
        (server, uri): (&str, &str),
        budget: &mut LinkBudget,
    ) -> Option<String> {
        match &scope.server {
            None => self.catalog.resources().exposed(server, uri, budget),
            Some(_) => None,
        }
    }
}

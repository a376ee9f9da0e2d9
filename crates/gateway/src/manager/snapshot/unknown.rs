//! The errors for names that are in no list.
//!
//! Invariants: a name that belongs to a configured server which was never reached gives the failure of that server,
//! unless the operator denies it. A caller that sees one server learns nothing of the others.
//!
//! Not here: which names are alike (`settings::nearest`), waiting for servers that are still connecting (`routing`).

use std::sync::Arc;

use super::{Scope, Server, Snapshot};
use crate::manager::catalog::{LinkBudget, Resources, ServerResource, UriServers};
use crate::manager::error::{Error, Hidden, ItemKind};
use crate::manager::not_configured::NotConfigured;
use crate::manager::owners::Owners;
use crate::manager::{failed_at, naming};
use auth::{Principal, Role};
use protocol::feature::Kind;
use protocol::lifecycle::Peer;
use protocol::uri::split_owner;
use settings::Problem;
use upstream::config::Tools;
use upstream::{State, Status, Upstream};

impl Snapshot {
    /// The error for `name`, which is not in the catalog of `scope`.
    pub(super) fn unknown(&self, scope: &Scope, kind: ItemKind, name: &str) -> Error {
        let owner = match &scope.server {
            None => self.owner(kind, name),
            Some(server) => self.server(server).ok().map(|server| (server, name)),
        };
        let Some((server, own)) = owner else {
            let wrong = scope.server.is_none().then(|| self.not_configured_owner(kind, name)).flatten();
            return wrong.map_or_else(|| self.nowhere(kind, name), not_configured);
        };
        if !server.is_heard && server.may_have(kind, own) {
            let tool = (kind == ItemKind::Tool).then_some(own);
            return absence_error(&server.upstream, tool, &server.upstream.status());
        }
        let there = &server.upstream.config().name;
        let catalog = if scope.server.is_none() { &self.catalog } else { &server.catalog };
        let entries = catalog.listing(listed(kind)).entries().iter();
        let names = entries.filter(|entry| entry.route.server == *there).map(|entry| entry.exposed.as_str());
        Error::unknown_at(kind, (name, own), Some(there), names)
    }

    /// Adds to the error for the unknown tool `name` which setting hides it, if `principal` is a superuser. To anybody else
    /// a hidden tool is an unknown one.
    pub fn explained(&self, principal: &Principal, (scope, name): (&Scope, &str), error: Error) -> Error {
        if principal.role() != Role::Superuser {
            return error;
        }
        let find = |server: &str| self.server_called(server);
        let qualified = scope.server.is_none().then(|| naming::qualifier(name, find)).flatten();
        error.hidden_by(match qualified {
            Some((server, own)) => server.hides(own),
            None => self.servers_in(scope).iter().find_map(|server| server.hides(name)),
        })
    }

    /// Whether the one server that `scope` consists of is not connected now.
    pub fn is_away(&self, scope: &Scope) -> bool {
        let Some(name) = &scope.server else { return false };
        self.server_called(name).is_some_and(|server| !server.is_usable(server.upstream.status().state))
    }

    /// Why that server cannot be used now, if lists do not wait for it any more.
    pub fn absence(&self, scope: &Scope) -> Option<Error> {
        let Some(name) = &scope.server else { return None };
        let server = self.server_called(name).filter(|_| self.listable_at(scope).is_none())?;
        let status = server.upstream.status();
        (!server.is_usable(status.state)).then(|| absence_error(&server.upstream, None, &status))
    }

    /// The failure of the server that is named in `uri`, if it was never reached.
    pub(super) fn failure_behind(&self, kind: Kind, uri: &str) -> Option<Error> {
        let (name, own) = split_owner(uri)?;
        if let Some(wrong) = self.not_configured_called(name) {
            return Some(not_configured(wrong));
        }
        let server = self.server_called(name).filter(|server| !server.is_heard)?;
        let may_have = server.offers(kind, &own);
        may_have.then(|| absence_error(&server.upstream, None, &server.upstream.status()))
    }

    /// The server that `name` belongs to whatever the servers list, and what it calls it.
    fn owner<'n>(&self, kind: ItemKind, name: &'n str) -> Option<(&Arc<Server>, &'n str)> {
        let find = |server: &str| self.server_called(server);
        naming::qualifier(name, find).or_else(|| {
            let server = find(self.owners(kind).owner(name)?)?;
            (!server.is_heard).then_some((server, name))
        })
    }

    /// The servers that a scope sees.
    pub(crate) fn servers_in(&self, scope: &Scope) -> &[Arc<Server>] {
        match &scope.server {
            None => &self.servers,
            Some(name) => self.server_called(name).map(std::slice::from_ref).unwrap_or_default(),
        }
    }

    pub(super) fn server_called(&self, name: &str) -> Option<&Arc<Server>> {
        self.by_name.get(name).map(|&index| &self.servers[index])
    }

    /// The error for a server that is not there.
    pub(super) fn no_server(&self, name: &str) -> Error {
        if let Some(wrong) = self.not_configured_called(name) {
            return not_configured(wrong);
        }
        let servers = self.servers.iter().map(|server| &server.upstream.config().name);
        let wrong = self.not_configured.iter().map(|wrong| &wrong.name);
        let wrong = wrong.filter(|name| self.server_called(name).is_none());
        Error::server_not_found(name, servers.chain(wrong).map(AsRef::as_ref))
    }

    /// The problems of the new entry of the server `name`.
    pub(in crate::manager) fn problems_of(&self, name: &str) -> Vec<Problem> {
        let found = self.not_configured.iter().find(|wrong| *wrong.name == *name);
        found.map(|wrong| wrong.problems.clone()).unwrap_or_default()
    }

    /// The entry `name`, if no server runs in its place.
    fn not_configured_called(&self, name: &str) -> Option<&NotConfigured> {
        let found = self.not_configured.iter().find(|wrong| *wrong.name == *name)?;
        self.server_called(name).is_none().then_some(found)
    }

    /// The entry that the tool or prompt `name` belongs to.
    fn not_configured_owner(&self, kind: ItemKind, name: &str) -> Option<&NotConfigured> {
        let find = |server: &str| self.not_configured_called(server);
        let qualified = naming::qualifier(name, find).map(|(wrong, _)| wrong);
        qualified.or_else(|| find(self.owners(kind).owner(name)?))
    }

    /// The servers that have had the names of tools or prompts.
    fn owners(&self, kind: ItemKind) -> &Owners {
        match kind {
            ItemKind::Tool => &self.history.tools,
            ItemKind::Prompt => &self.history.prompts,
        }
    }

    fn nowhere(&self, kind: ItemKind, name: &str) -> Error {
        let names = self.catalog.listing(listed(kind)).entries().iter().map(|entry| entry.exposed.as_str());
        let unheard = self.servers.iter().filter(|server| server.is_awaited());
        let unheard = unheard.map(|server| &server.upstream.config().name);
        Error::name_not_found(kind, name, None, names).unless_at(unheard)
    }
}

impl Server {
    /// Whether its lists are known and calls reach it in this state.
    const fn is_usable(&self, state: State) -> bool {
        match state {
            State::Ready | State::Idle => true,
            State::Starting => self.is_heard,
            _ => false,
        }
    }

    /// Whether it was never reached and may be yet.
    fn is_awaited(&self) -> bool {
        !self.is_heard && self.upstream.config().enabled
    }

    /// The setting that hides its tool `name`, if it has one.
    fn hides(&self, name: &str) -> Option<Hidden> {
        let config = self.upstream.config();
        let is_renamed = |own: &str| config.tools.rename.get(own).is_some_and(|shown| shown == name);
        let mut tools = self.offer.iter().flat_map(|offer| &offer.tools);
        let tool = tools.find(|tool| tool.name == name || is_renamed(&tool.name))?;
        let setting = config.tools.hidden_by(&tool.name)?;
        Some(Hidden { server: Arc::clone(&config.name), setting })
    }

    /// Whether `name`, as clients know it, is not denied.
    fn may_have(&self, kind: ItemKind, name: &str) -> bool {
        if kind != ItemKind::Tool {
            return self.offers(Kind::Prompts, name);
        }
        let tools: &Tools = &self.upstream.config().tools;
        let renamed = tools.rename.iter().find(|(_, shown)| shown.as_str() == name);
        self.may_offer_tool(renamed.map_or(name, |(own, _)| own))
    }
}

fn not_configured(wrong: &NotConfigured) -> Error {
    Error::NotConfigured(Box::new(wrong.clone()))
}

const fn listed(kind: ItemKind) -> Kind {
    match kind {
        ItemKind::Tool => Kind::Tools,
        ItemKind::Prompt => Kind::Prompts,
    }
}

/// The error for a request, of `tool` if there is one, to a server that cannot be used.
fn absence_error(upstream: &Upstream, tool: Option<&str>, status: &Status) -> Error {
    failed_at(upstream, tool, cause_of_absence(upstream, status))
}

fn cause_of_absence(upstream: &Upstream, status: &Status) -> upstream::Error {
    match (status.state, status.breaker.retry_in) {
        (State::Disabled | State::Disconnected, _) => {
            upstream::Error::Unavailable { state: status.state.as_str() }
        }
        (State::AuthFailed, _) => {
            upstream::Error::AuthFailed { reason: status.last_error.clone().unwrap_or_default() }
        }
        (State::LoginRequired, _) if let Some(secret) = upstream.config().principal_secrets().first() => {
            upstream::Error::SecretRequired { secret: (*secret).into(), principal: None }
        }
        (State::LoginRequired, _) => {
            let reason = status.last_error.clone().unwrap_or_default();
            upstream::Error::LoginRequired { reason, only_this_call: false }
        }
        (_, Some(retry_in)) => upstream::Error::CircuitOpen { retry_in },
        (
            State::Connecting
            | State::Starting
            | State::Ready
            | State::Idle
            | State::Failed
            | State::NotConfigured,
            None,
        ) => {
            let reason = status.last_error.clone().unwrap_or_else(|| "it has not answered yet".into());
            upstream::Error::Connect { reason }
        }
    }
}

// The servers for a URI: of a resource, a template, a skill or a directory.

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

//! The authorization server that credentials of the configuration file belong to.
//!
//! A server chooses its authorization server, and can name another one later. Invariants: credentials that an operator
//! registered are sent to the authorization server that they were first used with, and to origins that it named then.
//! That is recorded before they are sent, for a server, its URL and the id of the client, not for an account, so that no
//! logout ends it. `issuer` in the file decides, and is recorded too.
//!
//! Not here: clients that registered themselves. Their registration names its issuer (`registration`).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use auth::vault::{Entry, EntryKind};
use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use settings::one_line;
use url::Url;

use crate::discovery::is_same_issuer;
use crate::saved::LoginStore;
use crate::shared::lock;
use crate::{AuthorizationServer, Error, Grant, Registration, Settings};

/// Limit of bindings of one server. Each URL and each client id that its entry in the file had makes one.
const MAX_BINDINGS: usize = 16;

/// The authorization server of one client of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerBinding {
    /// The hash of the server's URL and the id of the client.
    client: String,
    issuer: String,
    /// The origins that may get a credential.
    origins: Vec<String>,
}

impl IssuerBinding {
    fn new(client: String, server: &AuthorizationServer) -> Self {
        let issuer = Url::parse(&server.issuer).ok();
        let mut origins: Vec<String> = server.endpoints().chain(&issuer).map(origin).collect();
        origins.sort_unstable();
        origins.dedup();
        Self { client, issuer: server.issuer.clone(), origins }
    }

    /// Fails if a credential may not be sent to `endpoint`.
    pub(crate) fn check_endpoint(&self, endpoint: &Url) -> Result<(), Error> {
        let origin = origin(endpoint);
        if self.origins.contains(&origin) {
            return Ok(());
        }
        let (issuer, origin) = (one_line(&self.issuer), one_line(&origin));
        Err(Error::refused(format!(
            "the authorization server `{issuer}` names an endpoint at `{origin}`, where the credentials of this server \
             were not used before; nothing was sent. If that is right, write `issuer: {issuer}`"
        )))
    }

    fn check(&self, server: &AuthorizationServer) -> Result<(), Error> {
        if !is_same_issuer(&self.issuer, &server.issuer) {
            let (before, now) = (one_line(&self.issuer), one_line(&server.issuer));
            return Err(Error::refused(format!(
                "the server names the authorization server `{now}`, and its credentials were first used at `{before}`; \
                 nothing was sent. If `{now}` is right, write it as `issuer`"
            )));
        }
        server.token_endpoint.iter().try_for_each(|endpoint| self.check_endpoint(endpoint))
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// The bindings of all servers in memory, for a process without a vault or with one that cannot be written.
#[derive(Clone, Default)]
pub struct KnownIssuers(Arc<Mutex<HashMap<Arc<str>, Vec<IssuerBinding>>>>);

impl fmt::Debug for KnownIssuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownIssuers").finish_non_exhaustive()
    }
}

impl KnownIssuers {
    /// Fails if the credentials of `settings` belong to another authorization server than `server`. Records nothing.
    pub(crate) fn compare(
        &self,
        store: &LoginStore,
        settings: &Settings,
        server: &AuthorizationServer,
    ) -> Result<(), Error> {
        let Some(id) = registered_id(settings).filter(|_| settings.issuer.is_none()) else { return Ok(()) };
        let found = self.find(store, &client(store, id))?;
        found.map_or(Ok(()), |binding| binding.check(server))
    }

    /// Returns the binding for a request with `registration` to `server`, and records it before the first one. `None` if
    /// the request has no credential of `settings`.
    pub(crate) async fn bind(
        &self,
        store: &LoginStore,
        settings: &Settings,
        (server, registration): (&AuthorizationServer, &Registration),
    ) -> Result<Option<IssuerBinding>, Error> {
        let is_of_file =
            |id: &&str| settings.grant != Grant::AuthorizationCode || **id == registration.client_id;
        let Some(id) = registered_id(settings).filter(is_of_file) else { return Ok(None) };
        let new = IssuerBinding::new(client(store, id), server);
        if settings.issuer.is_some() {
            // A vault that cannot be read does not matter: the file decides.
            if !self.find(store, &new.client).is_ok_and(|found| found.as_ref() == Some(&new)) {
                self.record(store, &new, true).await;
            }
            return Ok(Some(new));
        }
        let mut found = self.find(store, &new.client)?;
        if found.is_none() {
            self.record(store, &new, false).await;
            // Another process, or another login of this one, may have been first.
            found = self.find(store, &new.client)?;
        }
        let binding = found.unwrap_or(new);
        binding.check(server).map(|()| Some(binding))
    }

    fn find(&self, store: &LoginStore, client: &str) -> Result<Option<IssuerBinding>, Error> {
        let in_memory = || lock(&self.0).get(&store.server).cloned().unwrap_or_default();
        let of_client = |bindings: Vec<IssuerBinding>| bindings.into_iter().find(|one| one.client == client);
        Ok(of_client(saved(store)?).or_else(|| of_client(in_memory())))
    }

    /// Records `binding`, also in the place of the one of its client if `replaces`.
    async fn record(&self, store: &LoginStore, binding: &IssuerBinding, replaces: bool) {
        add(lock(&self.0).entry(Arc::clone(&store.server)).or_default(), binding, replaces);
        let binding = binding.clone();
        let edit = move |bindings: &mut Vec<IssuerBinding>| add(bindings, &binding, replaces);
        store.update(&entry(store), edit).await;
    }
}

/// Adds `binding`, in the place of the one of its client only if `replaces`. The oldest goes if there are too many.
fn add(bindings: &mut Vec<IssuerBinding>, binding: &IssuerBinding, replaces: bool) {
    if !replaces && bindings.iter().any(|other| other.client == binding.client) {
        return;
    }
    bindings.retain(|other| other.client != binding.client);
    if bindings.len() >= MAX_BINDINGS {
        bindings.remove(0);
    }
    bindings.push(binding.clone());
}

/// The bindings in the vault. Fails if it has some that cannot be read: then nobody knows where a credential belongs.
fn saved(store: &LoginStore) -> Result<Vec<IssuerBinding>, Error> {
    let unreadable = |reason: String| {
        Error::refused(format!(
            "it is not known to which authorization server the credentials belong: {reason}. Write it as `issuer`"
        ))
    };
    let Some(vault) = &store.vault else { return Ok(Vec::new()) };
    let value = vault.get(&entry(store)).map_err(|error| unreadable(error.to_string()))?;
    let Some(value) = value else { return Ok(Vec::new()) };
    serde_json::from_slice(&value).map_err(|_| unreadable("the entry in the vault cannot be read".to_owned()))
}

fn entry(store: &LoginStore) -> Entry {
    Entry { kind: EntryKind::Issuer, name: store.server.to_string(), principal: None }
}

/// The id under which the operator registered Switchyard; empty for an assertion without a client. `None` if the file
/// has no credential.
fn registered_id(settings: &Settings) -> Option<&str> {
    let url = settings.client_metadata_url.as_ref().map(Url::as_str);
    settings.client_id.as_deref().or_else(|| settings.has_secret().then_some(url.unwrap_or_default()))
}

/// The key of a binding. The URL of a server may hold a secret, so only its hash is kept.
fn client(store: &LoginStore, id: &str) -> String {
    let mut hash = Context::new(&SHA256);
    // A URL has no space in it.
    hash.update(format!("{} {id}", store.url).as_bytes());
    hex::encode(hash.finish().as_ref())
}

#[cfg(test)]
#[path = "issuer_binding_tests.rs"]
mod tests;

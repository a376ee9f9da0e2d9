//! The authorization server of the gateway: opens it, tells it about people and endpoints, and ends grants of revoked keys.
//!
//! Invariants: `serve` has one if the file asks for it. Standard input and output need no tokens, and a program that embeds
//! Switchyard authenticates its clients itself. Its records belong to its public URL, so gateways that share a state folder
//! do not see each other's.
//!
//! Not here: its endpoints and pages (`downstream`), the check of its tokens (`auth`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use auth::vault::Vault;
use auth::{Authenticator, Person};
use authorization::{
    Access, AuthorizationServer, Endpoint, FolderStore, Host, KeyError, Parts, RedisStore, Store,
};
use downstream::browser::sessions::BrowserSessions;
use gateway::manager::Manager;
use net::http::Network;
use oauth::Provider;
use runtime::shutdown::Shutdown;

/// The pause before grants of revoked keys are searched again if the store failed.
const STORE_PAUSE: Duration = Duration::from_secs(5);
/// The pause between two searches for records whose time is over.
const SWEEP_EVERY: Duration = Duration::from_hours(1);

/// Why there is no authorization server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its keys cannot be used.
    #[error("{0}")]
    Keys(#[from] KeyError),
    /// The configuration was made by a program, which left out what the server needs.
    #[error("`server.authorization_server` needs `public_url`, and a vault in `state_dir`")]
    Incomplete,
}

/// Checks that the vault can be read that the server of `config` needs, if `config` asks for one. Blocks on files.
#[cfg(feature = "program")]
pub(crate) fn check(config: &downstream::Config) -> Result<(), Error> {
    if config.authorization_server.is_some() {
        config.vault.vault().and_then(Vault::open).map_err(KeyError::from)?;
    }
    Ok(())
}

/// The parts of the program that its authorization server uses.
pub(super) struct Uses {
    pub(super) manager: Arc<Manager>,
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) browsers: Arc<BrowserSessions>,
    pub(super) vault: Option<Arc<Vault>>,
    pub(super) network: Network,
    pub(super) shutdown: Shutdown,
}

/// The authorization server, and who may sign in for its clients.
pub(super) struct Opened {
    pub(super) server: Arc<AuthorizationServer>,
    /// The login service at which people sign in.
    pub(super) people: Option<Arc<Provider>>,
    /// Whether a key is enough.
    pub(super) takes_keys: bool,
}

/// Opens the authorization server that `config` asks for, whose tokens are accepted from now on.
pub(super) async fn open(config: &downstream::Config, uses: Uses) -> Result<Option<Opened>, Error> {
    let Some(settings) = &config.authorization_server else { return Ok(None) };
    let Uses { manager, authenticator, browsers, vault, network, shutdown } = uses;
    let (Some(url), Some(vault), Some(state)) = (&config.public_url, vault, config.vault.folder()) else {
        return Err(Error::Incomplete);
    };
    let login = settings.login.clone();
    let people = login.map(|login| Arc::new(Provider::new(login, &network, &shutdown)));
    let host = Arc::new(GatewayHost {
        manager,
        authenticator: Arc::clone(&authenticator),
        browsers,
        people: people.clone(),
        takes_keys: settings.keys,
    });
    let store: Arc<dyn Store> = match &settings.redis_url {
        Some(address) => Arc::new(RedisStore::of_issuer(address, url)),
        None => Arc::new(FolderStore::of_issuer(&state, url)),
    };
    let parts = Parts { vault, store, host, network, shutdown: shutdown.clone() };
    let server = AuthorizationServer::open(settings.server(url.clone()), parts, SystemTime::now()).await?;
    let server = Arc::new(server);
    authenticator.accept_tokens_of(Arc::clone(&server) as Arc<dyn auth::TokenIssuer>);
    let (followed, keys) = (Arc::clone(&server), Arc::clone(&authenticator));
    shutdown.spawn_until_end(async move { follow_keys(&followed, &keys).await });
    let removals = Arc::clone(&server);
    shutdown.spawn_until_end(async move { removals.follow_removals().await });
    let swept = Arc::clone(&server);
    shutdown.spawn_until_end(async move { sweep_forever(&swept).await });
    tracing::info!(issuer = url, "clients can log in at the authorization server");
    Ok(Some(Opened { server, people, takes_keys: settings.keys }))
}

/// Removes records whose time is over.
async fn sweep_forever(server: &AuthorizationServer) {
    loop {
        if let Err(error) = server.sweep(SystemTime::now()).await {
            tracing::warn!(%error, "some expired grants and registrations stay in the store until the next search");
        }
        tokio::time::sleep(SWEEP_EVERY).await;
    }
}

/// Ends the grants of API keys that were revoked or replaced, also while the program did not run. Their tokens have ended
/// by then.
async fn follow_keys(server: &AuthorizationServer, authenticator: &Authenticator) {
    let (mut renewals, mut known) = (authenticator.renewals(), None);
    loop {
        renewals.mark_unchanged();
        let now = authenticator.key_tags();
        match end_of_others(server, known.as_ref(), &now).await {
            Ok(grants) => {
                if grants > 0 {
                    tracing::warn!(grants, "grants of API keys that were revoked or replaced have ended");
                }
                known = Some(now);
            }
            Err(error) => {
                tracing::error!(%error, "grants of revoked API keys are searched again");
                tokio::time::sleep(STORE_PAUSE).await;
                continue;
            }
        }
        if renewals.changed().await.is_err() {
            return;
        }
    }
}

/// Ends the grants of keys that are not in `now` as they are in `before`. Without `before`, all grants are compared.
async fn end_of_others(
    server: &AuthorizationServer,
    before: Option<&BTreeMap<String, String>>,
    now: &BTreeMap<String, String>,
) -> Result<usize, authorization::StoreError> {
    let Some(before) = before else { return server.end_without_credential(None, SystemTime::now()).await };
    let mut ended = 0;
    for (owner, _) in before.iter().filter(|(owner, tag)| now.get(*owner) != Some(*tag)) {
        ended += server.end_without_credential(Some(owner), SystemTime::now()).await?;
    }
    Ok(ended)
}

/// The gateway, as its authorization server sees it.
struct GatewayHost {
    manager: Arc<Manager>,
    authenticator: Arc<Authenticator>,
    browsers: Arc<BrowserSessions>,
    /// The login service at which people sign in.
    people: Option<Arc<Provider>>,
    /// Whether the holders of keys may agree to grants.
    takes_keys: bool,
}

impl Host for GatewayHost {
    fn rights(&self, owner: &str) -> Option<Access> {
        let holder = self.authenticator.key_holder(owner).filter(|_| self.takes_keys);
        holder.map(|holder| Access::of(&holder))
    }

    fn may_agree(&self, owner: &str) -> bool {
        // Nothing tells when the issuer of a token or certificate takes the rights of its subject away.
        Person::is_id(owner) || self.rights(owner).is_some()
    }

    fn credential(&self, owner: &str) -> Option<String> {
        if Person::is_id(owner) {
            return self.people.as_ref().map(|people| people.rules().to_owned());
        }
        self.authenticator.key_tag(owner).filter(|_| self.takes_keys)
    }

    fn endpoint(&self, name: &str) -> Option<Endpoint> {
        if self.manager.views().iter().any(|view| **view == *name) {
            return Some(Endpoint::View);
        }
        self.manager.snapshot().server(name).is_ok().then_some(Endpoint::Server)
    }

    fn grant_ended(&self, id: &str) {
        self.authenticator.end_grant(id);
    }

    fn uses_grants(&self) -> bool {
        self.authenticator.uses_grants()
    }

    fn used_grants(&self) -> Vec<String> {
        self.authenticator.used_grants()
    }

    fn owner_ended(&self, owner: &str) {
        self.browsers.end_of(owner);
    }
}

//! A server for tests, with a store in memory.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use auth::vault::{Vault, VaultConfig};
use auth::{ApiKey, Authenticator, KeyHash, Principal, Role};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use json::Raw;
use net::http::Network;
use runtime::shutdown::Shutdown;

pub(crate) use testkit::pkce::{VERIFIER, query};

use crate::store;
use crate::{
    Access, AuthorizationError, AuthorizationServer, Client, Config, Endpoint, Host, Parts, Store,
    StoreError, Table,
};

/// The issuer.
pub(crate) const ISSUER: &str = "https://gw.example";

/// Records in memory.
#[derive(Default)]
pub(crate) struct MemoryStore {
    records: Mutex<BTreeMap<(Table, String), Vec<u8>>>,
    fails: AtomicBool,
    removed: AtomicU64,
    /// How often keys were made in it.
    keys_made: AtomicU64,
    /// Whether reads never end.
    hangs: AtomicBool,
    is_shared: AtomicBool,
    /// The id of a record that cannot be read.
    broken: OnceLock<String>,
}

impl MemoryStore {
    /// Makes the store fail, or work again.
    pub(crate) fn set_fails(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }

    /// Makes reads hang, as a disk does whose server is away.
    pub(crate) fn hang(&self) {
        self.hangs.store(true, Ordering::Relaxed);
    }

    /// A store of several machines.
    pub(crate) fn shared() -> Self {
        Self { is_shared: true.into(), ..Self::default() }
    }

    /// Loses everything, as a Redis that writes no file does at its end.
    pub(crate) fn lose_everything(&self) {
        self.with(BTreeMap::clear).expect("it works");
        self.removed.store(0, Ordering::Relaxed);
    }

    /// Makes the record `id` unreadable.
    pub(crate) fn break_record(&self, id: &str) {
        assert!(self.broken.set(id.to_owned()).is_ok());
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut BTreeMap<(Table, String), Vec<u8>>) -> T,
    ) -> Result<T, StoreError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(StoreError { action: "read", source: io::Error::other("the test makes it fail") });
        }
        Ok(work(&mut self.records.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Store for MemoryStore {
    fn get<'a>(&'a self, table: Table, id: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        async move {
            // As slow as another thread, so that requests overlap.
            tokio::task::yield_now().await;
            if self.hangs.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if self.broken.get().is_some_and(|broken| broken == id) {
                return Err(StoreError { action: "read", source: io::Error::other("the test breaks it") });
            }
            self.with(|records| records.get(&(table, id.to_owned())).cloned())
        }
        .boxed()
    }

    fn get_all<'a>(
        &'a self,
        table: Table,
        ids: &'a [String],
    ) -> BoxFuture<'a, Vec<Result<Option<Vec<u8>>, StoreError>>> {
        futures_util::future::join_all(ids.iter().map(move |id| self.get(table, id))).boxed()
    }

    fn swap<'a>(
        &'a self,
        table: Table,
        id: &'a str,
        before: Option<&'a [u8]>,
        after: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        async move {
            store::check(id, after)?;
            self.with(|records| {
                let place = (table, id.to_owned());
                if records.get(&place).map(Vec::as_slice) != before {
                    return false;
                }
                if let Some(after) = after {
                    if records.insert(place, after.to_vec()).is_none() && table == Table::Keys {
                        let made = self.keys_made.fetch_add(1, Ordering::Relaxed) + 1;
                        self.removed.store(made * 1_000_000, Ordering::Relaxed);
                    }
                } else {
                    let is_removed = records.remove(&place).is_some() && table == Table::Grants;
                    self.removed.fetch_add(is_removed.into(), Ordering::Relaxed);
                }
                true
            })
        }
        .boxed()
    }

    fn ids<'a>(&'a self, table: Table, prefix: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        async move {
            self.with(|records| {
                let of_table = records.keys().filter(|(other, id)| *other == table && id.starts_with(prefix));
                of_table.map(|(_, id)| id.clone()).collect()
            })
        }
        .boxed()
    }

    fn removed_grants(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        async move { self.with(|_| self.removed.load(Ordering::Relaxed)) }.boxed()
    }

    fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }
}

/// A gateway whose people and endpoints a test chooses.
#[derive(Default)]
pub(crate) struct Gateway {
    pub(crate) people: Mutex<HashMap<String, Access>>,
    /// The tag of the credential of everybody.
    pub(crate) credential: Mutex<Option<String>>,
    /// The check of requests, which hears of ended grants.
    pub(crate) requests: OnceLock<Arc<Authenticator>>,
}

impl Host for Gateway {
    fn rights(&self, owner: &str) -> Option<Access> {
        self.people.lock().unwrap_or_else(PoisonError::into_inner).get(owner).cloned()
    }

    fn credential(&self, _: &str) -> Option<String> {
        self.credential.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn endpoint(&self, name: &str) -> Option<Endpoint> {
        match name {
            "files" => Some(Endpoint::Server),
            "help" => Some(Endpoint::View),
            _ => None,
        }
    }

    fn grant_ended(&self, id: &str) {
        if let Some(requests) = self.requests.get() {
            requests.end_grant(id);
        }
    }

    fn uses_grants(&self) -> bool {
        self.requests.get().is_some_and(|requests| requests.uses_grants())
    }

    fn used_grants(&self) -> Vec<String> {
        self.requests.get().map(|requests| requests.used_grants()).unwrap_or_default()
    }
}

/// A server with its parts.
pub(crate) struct Site {
    pub(crate) server: Arc<AuthorizationServer>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) now: SystemTime,
    pub(crate) folder: tempfile::TempDir,
}

impl Site {
    pub(crate) async fn new(clients: Vec<Client>) -> Self {
        Self::reaching(clients, Network::default(), Vec::new()).await
    }

    /// A server that reaches documents by `network`, and trusts the hosts of `trusted_hosts`.
    pub(crate) async fn reaching(clients: Vec<Client>, network: Network, trusted_hosts: Vec<String>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let vault = Vault::new(VaultConfig { path: folder.path().join("vault.json"), keys: Vec::new() });
        let (store, gateway) = (Arc::new(MemoryStore::default()), Arc::new(Gateway::default()));
        let parts =
            Parts { vault, store: store.clone(), host: gateway.clone(), network, shutdown: Shutdown::new() };
        let (issuer, now) = (ISSUER.to_owned(), SystemTime::now());
        let config = Config { issuer, registers: true, clients, trusted_hosts };
        let server = Arc::new(AuthorizationServer::open(config, parts, now).await.expect("keys"));
        Self { server, store, gateway, now, folder }
    }

    /// Makes time pass.
    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// The check of requests of the gateway, which accepts tokens of the server and unknown keys of its people.
    pub(crate) fn requests(&self) -> Arc<Authenticator> {
        let requests = self.requests_of_another_process();
        assert!(self.gateway.requests.set(Arc::clone(&requests)).is_ok());
        requests
    }

    /// The check of requests of a gateway that hears of no ended grant.
    pub(crate) fn requests_of_another_process(&self) -> Arc<Authenticator> {
        let requests = Arc::new(Authenticator::new(&self.keys()).expect("no files"));
        requests.accept_tokens_of(self.server.clone());
        requests
    }

    /// The server of another process that shares the store.
    pub(crate) async fn other_process(&self) -> AuthorizationServer {
        open(self.folder.path(), self.store.clone(), Arc::default(), self.now).await
    }

    /// The keys of all people, which nobody knows.
    pub(crate) fn keys(&self) -> auth::Config {
        let people = self.gateway.people.lock().unwrap_or_else(PoisonError::into_inner);
        let key = |(owner, access): (&String, &Access)| {
            let id = owner.strip_prefix("key:").expect("a key").to_owned();
            let hash = KeyHash::parse(&format!("sha256:{}", "5a".repeat(32))).expect("a hash").expect("good");
            let view = access.view.as_deref().map(Arc::from);
            ApiKey { id, hash, role: access.role, expires: None, view }
        };
        auth::Config::ApiKey(people.iter().map(key).collect::<Vec<_>>().into())
    }

    /// A person who may do what `role` may.
    pub(crate) fn person(&self, name: &str, role: Role) -> Principal {
        let principal = Principal::new(name.to_owned(), role);
        let mut people = self.gateway.people.lock().unwrap_or_else(PoisonError::into_inner);
        people.insert(name.to_owned(), Access::of(&principal));
        principal
    }

    /// Registers a client with `redirect_uri`, and returns its id.
    pub(crate) async fn register(&self, redirect_uri: &str) -> String {
        let request = raw(&format!(r#"{{"redirect_uris": ["{redirect_uri}"], "client_name": "App"}}"#));
        let answer = self.server.register(&request, self.now).await.expect("a client");
        answer["client_id"].as_str().expect("an id").to_owned()
    }

    /// Logs `person` in at `client`, and returns the code.
    pub(crate) async fn log_in(&self, person: &Principal, client: &str, redirect_uri: &str) -> String {
        let query = query(client, redirect_uri, &[]);
        let consent = self.server.authorize(person, &query, self.now).await.expect("a consent");
        let location = self.server.approve(person, &consent.request, self.now).await.expect("a code");
        parameter(&location, "code").expect("a code")
    }
}

/// Opens a server with the vault in `folder`, as another process would.
pub(crate) async fn open(
    folder: &Path,
    store: Arc<dyn Store>,
    host: Arc<Gateway>,
    now: SystemTime,
) -> AuthorizationServer {
    let keys = if store.is_shared() { vec!["one key of all machines".repeat(2).into()] } else { Vec::new() };
    let vault = Vault::new(VaultConfig { path: folder.join("vault.json"), keys });
    let parts = Parts { vault, store, host, network: Network::default(), shutdown: Shutdown::new() };
    let issuer = ISSUER.to_owned();
    let config = Config { issuer, registers: true, clients: Vec::new(), trusted_hosts: Vec::new() };
    AuthorizationServer::open(config, parts, now).await.expect("keys")
}

/// A form or a query.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// A parameter of a redirect.
pub(crate) fn parameter(location: &str, name: &str) -> Option<String> {
    let url = url::Url::parse(location).expect("a URL");
    let mut found = url.query_pairs().filter(|(other, _)| other == name);
    let value = found.next()?.1.into_owned();
    assert!(found.next().is_none(), "{name} is there once");
    Some(value)
}

/// The parameters of an answer with an error.
pub(crate) fn redirected(error: AuthorizationError) -> (String, String, Option<String>) {
    match error {
        AuthorizationError::Redirected { location, .. } | AuthorizationError::Offered { location, .. } => {
            let of = |name| parameter(&location, name);
            assert_eq!(of("iss").as_deref(), Some(ISSUER));
            (
                of("error").expect("an error"),
                location.split('?').next().unwrap_or_default().to_owned(),
                of("state"),
            )
        }
        AuthorizationError::Shown(error) => panic!("{error}"),
    }
}

pub(crate) fn raw(text: &str) -> Raw {
    Raw::parse(&Bytes::copy_from_slice(text.as_bytes())).expect("JSON")
}

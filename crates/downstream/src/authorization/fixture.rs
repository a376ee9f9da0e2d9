//! Test support: a gateway with an authorization server, its clients, and the browsers of people.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::Router;
use http::{HeaderMap, Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;
use url::form_urlencoded::Serializer;

use super::Endpoints;
use crate::Config;
use crate::authority::{Authority, Hosts};
use crate::guard::Guard;
use crate::http_service::HttpService;
use crate::login::Pages;
use crate::login::fixture::{Browser, Fake, PUBLIC, Shown, two_keys};
use crate::sessions::Sessions;
use crate::streamable_http::StreamableHttpEndpoint;
use auth::vault::{Vault, VaultConfig};
use auth::{Authenticator, Role, Sealer};
use authorization::{
    Access, AuthorizationServer, Client, ClientAuthentication, ClientMetadata, ClientSource, Endpoint,
    FolderStore, Host, Parts, RedirectUri,
};
use gateway::Gateway;
use gateway::login_links::{LoginContext, LoginLinks};
use gateway::manager::Manager;
use net::http::Network;
use runtime::shutdown::Shutdown;
pub(super) use testkit::pkce::VERIFIER;
use testkit::pkce::query;

pub(super) const CALLBACK: &str = "https://claude.ai/api/mcp/auth_callback";
/// The client of the operator's file.
pub(super) const CONFIGURED: &str = "configured";

/// The roles of people, by the id of their principal.
#[derive(Default)]
pub(super) struct People {
    rights: Mutex<HashMap<String, Role>>,
    authenticator: Mutex<Option<Arc<Authenticator>>>,
}

impl People {
    pub(super) fn set(&self, person: &str, role: Role) {
        self.rights.lock().expect("no panic").insert(person.to_owned(), role);
    }
}

impl Host for People {
    fn rights(&self, owner: &str) -> Option<Access> {
        let role = self.rights.lock().unwrap_or_else(PoisonError::into_inner).get(owner).copied();
        role.map(|role| Access { role, view: None })
    }

    fn endpoint(&self, _: &str) -> Option<Endpoint> {
        None
    }

    fn grant_ended(&self, id: &str) {
        if let Some(authenticator) = &*self.authenticator.lock().expect("no panic") {
            authenticator.end_grant(id);
        }
    }
}

/// One gateway.
pub(super) struct Site {
    pub(super) router: Router,
    pub(super) server: Arc<AuthorizationServer>,
    pub(super) pages: Arc<Pages>,
    pub(super) people: Arc<People>,
    /// The keys of alice and mallory, who are callers.
    pub(super) keys: [SecretString; 2],
    _folder: tempfile::TempDir,
}

impl Site {
    pub(super) async fn new() -> Self {
        Self::at(PUBLIC).await
    }

    /// A gateway at `public_url`.
    pub(super) async fn at(public_url: &str) -> Self {
        let (entries, keys) = two_keys();
        let config = Config {
            auth: auth::Config::ApiKey(entries.into()),
            public_url: Some(public_url.to_owned()),
            hosts: Hosts::Listed(vec![Authority::parse("gw.example").expect("a host")]),
            ..Config::default()
        };
        let mut guard = Guard::new(&config).expect("no files");
        let people = Arc::new(People::default());
        for person in ["key:alice", "key:mallory"] {
            people.set(person, Role::Caller);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let server = Arc::new(server(public_url, &people, folder.path()).await);
        guard.authenticator().accept_tokens_of(Arc::clone(&server) as Arc<dyn auth::TokenIssuer>);
        *people.authenticator.lock().expect("no panic") = Some(guard.authenticator());
        let links = Arc::new(LoginLinks::new(Arc::new(Sealer::random()), config.public_url.clone()));
        let logins = LoginContext { service: Arc::new(Fake::default()), links };
        let pages = Arc::new(Pages::new(&guard, &config, logins));
        let endpoints = Endpoints::new(Arc::clone(&server), &mut guard, &pages);
        let routes = Arc::clone(&pages).router().merge(endpoints.router());
        let service = HttpService::with(guard, Some(mcp()), (Vec::new(), routes), Arc::default());
        Self { router: service.into_router(), server, pages, people, keys, _folder: folder }
    }

    /// The browser of somebody.
    pub(super) fn browser(&self) -> Browser {
        Browser::on(&self.router, "gw.example", PUBLIC)
    }

    /// The check of requests.
    pub(super) fn authenticator(&self) -> Arc<Authenticator> {
        self.people.authenticator.lock().expect("no panic").clone().expect("set at the start")
    }

    /// A program, which has no cookies and names no page.
    pub(super) fn program(&self, address: Option<[u8; 4]>) -> Browser {
        let mut program = self.browser();
        program.address = address.map(IpAddr::from);
        program
    }

    /// The browser of alice, who has signed in.
    pub(super) async fn alice(&self) -> Browser {
        let mut browser = self.browser();
        self.sign_in(&mut browser, "/oauth/sign-in", &self.keys[0]).await;
        browser
    }

    /// Signs in with the form at `path`, and returns where the browser goes.
    pub(super) async fn sign_in(&self, browser: &mut Browser, path: &str, key: &SecretString) -> String {
        let form = browser.get(path).await;
        let (csrf, key) = (form.field("csrf"), key.expose_secret().to_owned());
        let mut fields = vec![("csrf", csrf.as_str()), ("credential", key.as_str())];
        let carried = form.text.contains("name=\"authorize\"").then(|| form.field("authorize"));
        fields.extend(carried.as_deref().map(|carried| ("authorize", carried)));
        let answer = browser.post("/oauth/sign-in", &fields).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
        format!("/oauth/{}", answer.location())
    }

    /// Registers a client, and returns the answer.
    pub(super) async fn register(&self, name: &str, redirect_uri: &str) -> Value {
        let body = serde_json::json!({ "client_name": name, "redirect_uris": [redirect_uri] }).to_string();
        let answer = post_json(&mut self.program(None), &body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
        serde_json::from_str(&answer.text).expect("JSON")
    }

    /// Logs alice in at the configured client with `scope`, and returns the tokens.
    pub(super) async fn tokens(&self, scope: &str) -> Value {
        let mut browser = self.alice().await;
        let page = browser.get(&authorize(CONFIGURED, CALLBACK, &[("scope", scope)])).await;
        let location = decide(&mut browser, &page, "allow").await.location().to_owned();
        let answer = redeem(&mut self.program(None), CONFIGURED, &parameter(&location, "code")).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        serde_json::from_str(&answer.text).expect("JSON")
    }
}

async fn server(issuer: &str, people: &Arc<People>, folder: &std::path::Path) -> AuthorizationServer {
    let parts = Parts {
        vault: Vault::new(VaultConfig { path: folder.join("vault.json"), keys: Vec::new() }),
        store: Arc::new(FolderStore::new(&folder.join("records"))),
        host: Arc::clone(people) as Arc<dyn Host>,
        network: Network::default(),
        shutdown: Shutdown::new(),
    };
    let metadata = ClientMetadata {
        name: Some("Configured".to_owned()),
        redirect_uris: vec![RedirectUri::parse(CALLBACK).expect("a URI")],
        authentication: ClientAuthentication::None,
        refreshes: true,
    };
    let config = authorization::Config {
        issuer: issuer.to_owned(),
        registers: true,
        clients: vec![Client { id: CONFIGURED.to_owned(), source: ClientSource::Configured, metadata }],
        trusted_hosts: Vec::new(),
    };
    AuthorizationServer::open(config, parts, SystemTime::now()).await.expect("keys")
}

/// The MCP endpoint of a gateway without servers.
fn mcp() -> StreamableHttpEndpoint {
    let tasks = Shutdown::new();
    let manager =
        Manager::with_connectors(gateway::manager::Config::of(Vec::new()), Vec::new(), tasks.clone());
    let sessions = Arc::new(Sessions::new(16, Duration::from_mins(1)));
    StreamableHttpEndpoint::new(Gateway::new(manager, tasks.clone()), sessions, tasks, 1 << 20)
}

/// The path of a valid authorization request, with `more` in the place of its own parameters. An empty one is left out.
pub(super) fn authorize(client: &str, redirect_uri: &str, more: &[(&str, &str)]) -> String {
    format!("/oauth/authorize?{}", query(client, redirect_uri, more))
}

pub(super) fn form<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// Sends the decision of the person who sees `page`.
pub(super) async fn decide(browser: &mut Browser, page: &Shown, decision: &str) -> Shown {
    let fields = [("csrf", page.field("csrf")), ("request", page.field("request"))];
    let [csrf, request] = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    browser.post("/oauth/authorize", &[csrf, request, ("decision", decision)]).await
}

/// Sends `body` as a form.
pub(super) async fn post_form(program: &mut Browser, path: &str, body: String) -> Shown {
    let kind = [("content-type", "application/x-www-form-urlencoded")];
    program.send(Method::POST, path, &kind, body).await
}

/// Registers the client that `body` describes.
pub(super) async fn post_json(program: &mut Browser, body: &str) -> Shown {
    let kind = [("content-type", "application/json")];
    program.send(Method::POST, "/oauth/register", &kind, body.to_owned()).await
}

/// Redeems a code.
pub(super) async fn redeem(program: &mut Browser, client: &str, code: &str) -> Shown {
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", code),
        ("code_verifier", VERIFIER),
    ];
    post_form(program, "/oauth/token", form(fields)).await
}

/// A parameter of a redirect, which is there once.
#[track_caller]
pub(super) fn parameter(location: &str, name: &str) -> String {
    let url = Url::parse(location).unwrap_or_else(|error| panic!("{location}: {error}"));
    let mut found = url.query_pairs().filter(|(other, _)| other == name);
    let value = found.next().unwrap_or_else(|| panic!("no {name}: {location}")).1.into_owned();
    assert!(found.next().is_none(), "{location}");
    value
}

/// The headers of a request with an access token.
pub(super) fn bearer(tokens: &Value) -> HeaderMap {
    let value = format!("Bearer {}", text(tokens, "access_token"));
    HeaderMap::from_iter([(http::header::AUTHORIZATION, value.parse().expect("a header"))])
}

#[track_caller]
pub(super) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name}: {value}"))
}

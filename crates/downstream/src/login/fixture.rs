//! Test support: the pages behind the checks of requests, a login service in memory, and browsers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{COOKIE, HOST, LOCATION, SET_COOKIE};
use http::{HeaderMap, Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use tower::ServiceExt;
use url::{Url, form_urlencoded};

use super::Pages;
use crate::Config;
use crate::client_address::ClientAddress;
use crate::guard::Guard;
use crate::http_service::HttpService;
use auth::{ApiKey, Authenticator, KeyHash, Principal, Role, Sealer, generate};
use gateway::login_links::{LoginContext, LoginLinks};
use gateway::logins::{
    CodeResponse, Consent, ErrorResponse, LoginError, LoginService, LoginState, LoginStatus, OwnClient, Per,
    SealState,
};
use oauth::Provider;

pub(crate) const LOCAL: &str = "127.0.0.1:8080";
pub(crate) const PUBLIC: &str = "https://gw.example";

/// Logins in memory: `notes` has one for each principal, `wiki` one for all, and `odd` has hostile texts.
#[derive(Default)]
pub(crate) struct Fake {
    /// The logins that began: server and principal.
    pub(super) started: Mutex<Vec<(String, String)>>,
    /// The logins that ended: server, principal and code.
    pub(super) finished: Mutex<Vec<(String, String, String)>>,
    /// The page of the login service, if not the usual one.
    pub(super) authorization_url: Mutex<Option<Url>>,
}

pub(super) const ODD: &str = "odd<script>alert(1)</script>";

impl LoginService for Fake {
    fn per(&self, server: &str) -> Option<Per> {
        match server {
            "notes" | ODD => Some(Per::Principal),
            "wiki" => Some(Per::Shared),
            _ => None,
        }
    }

    fn start<'a>(
        &'a self,
        server: &'a str,
        principal: &'a Principal,
        own: &'a OwnClient,
        seal: SealState<'a>,
    ) -> BoxFuture<'a, Result<Consent, LoginError>> {
        self.started.lock().expect("no panic").push((server.to_owned(), principal.id().to_string()));
        let default = || Url::parse("https://login.example/authorize").expect("a URL");
        let mut url = self.authorization_url.lock().expect("no panic").clone().unwrap_or_else(default);
        let state = seal(r#"{"verifier":"canary-of-the-verifier"}"#);
        url.query_pairs_mut()
            .append_pair("state", &state)
            .append_pair("redirect_uri", own.redirect_uri.as_str());
        let issuer = "https://login.example/\"><img src=x>".to_owned();
        let scopes = vec!["read".to_owned(), "<b>write</b>".to_owned()];
        async move { Ok(Consent { authorization_url: url, issuer, scopes }) }.boxed()
    }

    fn finish<'a>(
        &'a self,
        server: &'a str,
        principal: &'a Principal,
        pending: &'a str,
        response: CodeResponse<'a>,
    ) -> BoxFuture<'a, Result<LoginStatus, LoginError>> {
        assert!(pending.contains("canary-of-the-verifier"));
        let login = (server.to_owned(), principal.id().to_string(), response.code.to_owned());
        self.finished.lock().expect("no panic").push(login);
        let refused = response.code == "bad";
        let account = Some("<i>ann@example.org</i>".to_owned());
        let (state, scopes) = (LoginState::LoggedIn, vec!["read".to_owned()]);
        let status = LoginStatus {
            state,
            account,
            scopes,
            expires_at: None,
            reason: None,
            failure: None,
            per: Per::Principal,
        };
        async move {
            if refused { Err(LoginError::Refused("no such <code>".to_owned())) } else { Ok(status) }
        }
        .boxed()
    }

    fn abandon(
        &self,
        _: &str,
        _: &Principal,
        _: &str,
        response: ErrorResponse<'_>,
    ) -> Result<(), LoginError> {
        let refused = || LoginError::Refused("the login was answered by another issuer".to_owned());
        if response.iss.is_some_and(|iss| iss != "https://login.example") { Err(refused()) } else { Ok(()) }
    }

    fn log_out<'a>(&'a self, _: &'a str, _: &'a Principal) -> BoxFuture<'a, Result<(), LoginError>> {
        async { Ok(()) }.boxed()
    }

    fn status(&self, _: &str, _: &Principal) -> Option<LoginStatus> {
        None
    }
}

/// The pages of one gateway.
pub(super) struct Site {
    pub(super) router: Router,
    pub(super) pages: Arc<Pages>,
    pub(super) service: Arc<Fake>,
    pub(super) authenticator: Arc<Authenticator>,
}

impl Site {
    pub(super) fn of(config: &Config, guard: Guard) -> Self {
        Self::built(config, guard, |pages| pages)
    }

    /// With two keys, and with `provider` as the login service of people.
    pub(super) fn with_provider(provider: Provider) -> (Self, [SecretString; 2]) {
        let (keys, secrets) = two_keys();
        let config = Config { auth: auth::Config::ApiKey(keys.into()), ..Config::default() };
        let guard = Guard::new(&config).expect("no files");
        let site = Self::built(&config, guard, |pages| pages.with_provider(Arc::new(provider), true));
        (site, secrets)
    }

    fn built(config: &Config, guard: Guard, change: impl FnOnce(Pages) -> Pages) -> Self {
        let service = Arc::new(Fake::default());
        let links = Arc::new(LoginLinks::new(Arc::new(Sealer::random()), config.public_url.clone()));
        let logins = LoginContext { service: Arc::clone(&service) as Arc<dyn LoginService>, links };
        let pages = Arc::new(change(Pages::new(&guard, config, logins)));
        let authenticator = guard.authenticator();
        let router = HttpService::new(guard, Arc::clone(&pages).router()).into_router();
        Self { router, pages, service, authenticator }
    }

    /// Without authentication, on loopback.
    pub(super) fn open() -> Self {
        let config = Config::default();
        Self::of(&config, Guard::new(&config).expect("no files"))
    }

    /// With two keys, at a public URL if there is one.
    pub(super) fn with_keys(public_url: Option<&str>) -> (Self, [SecretString; 2]) {
        let (keys, secrets) = two_keys();
        let mut config = Config { auth: auth::Config::ApiKey(keys.into()), ..Config::default() };
        config.public_url = public_url.map(str::to_owned);
        let gw = crate::authority::Authority::parse("gw.example").expect("a host");
        let local = crate::authority::Authority::parse("127.0.0.1").expect("a host");
        config.hosts = crate::authority::Hosts::Listed(vec![gw, local]);
        (Self::of(&config, Guard::new(&config).expect("no files")), secrets)
    }

    /// The link of a login of `principal`, as a path.
    pub(super) fn link(&self, server: &str, principal: &Principal) -> String {
        self.link_at(server, principal, SystemTime::now())
    }

    pub(super) fn link_at(&self, server: &str, principal: &Principal, now: SystemTime) -> String {
        let link = self.pages.logins.links.link(server, principal, Some(LOCAL), now).expect("a link");
        let url = Url::parse(&link.url).expect("a URL");
        format!("{}?{}", url.path(), url.query().expect("a ticket"))
    }

    pub(super) fn started(&self) -> usize {
        self.service.started.lock().expect("no panic").len()
    }

    pub(super) fn finished(&self) -> Vec<(String, String, String)> {
        self.service.finished.lock().expect("no panic").clone()
    }
}

/// Keys of the callers `alice` and `mallory`.
pub(crate) fn two_keys() -> (Vec<ApiKey>, [SecretString; 2]) {
    let made = ["alice", "mallory"].map(|id| (id, generate(id)));
    let entry = |id: &str, hash| ApiKey {
        id: id.into(),
        hash: KeyHash::Sha256(hash),
        role: Role::Caller,
        expires: None,
        view: None,
    };
    let [(alice, (first, first_hash)), (mallory, (second, second_hash))] = made;
    (vec![entry(alice, first_hash), entry(mallory, second_hash)], [first, second])
}

pub(crate) fn alice() -> Principal {
    Principal::new("key:alice", Role::Caller)
}

/// A browser: keeps cookies, and says where a form comes from.
pub(crate) struct Browser {
    router: Router,
    host: &'static str,
    origin: &'static str,
    pub(crate) jar: BTreeMap<String, String>,
    /// The principal that a host program finds.
    pub(crate) principal: Option<Principal>,
    /// The address of its connection.
    pub(crate) address: Option<IpAddr>,
}

impl Browser {
    pub(super) fn local(site: &Site) -> Self {
        Self::at(site, LOCAL, "http://127.0.0.1:8080")
    }

    pub(super) fn at(site: &Site, host: &'static str, origin: &'static str) -> Self {
        Self::on(&site.router, host, origin)
    }

    /// A browser that reaches `router` as `host`.
    pub(crate) fn on(router: &Router, host: &'static str, origin: &'static str) -> Self {
        Self { router: router.clone(), host, origin, jar: BTreeMap::new(), principal: None, address: None }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Shown {
        self.send(Method::GET, path, &[], String::new()).await
    }

    /// Sends a form from a page of Switchyard.
    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Shown {
        let from = [("origin", self.origin), ("sec-fetch-site", "same-origin")];
        self.post_from(path, fields, &from).await
    }

    /// Sends a form from elsewhere.
    pub(crate) async fn post_from(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        from: &[(&str, &str)],
    ) -> Shown {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let headers: Vec<_> =
            from.iter().copied().chain([("content-type", "application/x-www-form-urlencoded")]).collect();
        self.send(Method::POST, path, &headers, body).await
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Shown {
        let mut request = Request::builder().method(method).uri(path).header(HOST, self.host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !self.jar.is_empty() {
            let cookies: Vec<String> =
                self.jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request = request.header(COOKIE, cookies.join("; "));
        }
        let mut request = request.body(Body::from(body)).expect("a request");
        if let Some(principal) = &self.principal {
            request.extensions_mut().insert(principal.clone());
        }
        if let Some(address) = self.address {
            request.extensions_mut().insert(ClientAddress::from(address));
        }
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        let (head, body) = response.into_parts();
        for cookie in head.headers.get_all(SET_COOKIE) {
            let text = cookie.to_str().expect("text");
            let (name, value) = text.split(';').next().and_then(|pair| pair.split_once('=')).expect("a pair");
            if text.contains("Max-Age=0") {
                self.jar.remove(name);
            } else {
                self.jar.insert(name.to_owned(), value.to_owned());
            }
        }
        let body = to_bytes(body, usize::MAX).await.expect("a body");
        Shown {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8(body.to_vec()).expect("UTF-8"),
        }
    }

    /// Signs in with `key` and follows to the page of `ticket`.
    pub(crate) async fn sign_in(&mut self, link: &str, key: &SecretString) -> Shown {
        let form = self.get(link).await;
        let ticket = link.split_once("login=").expect("a ticket").1;
        assert_eq!(form.field("login"), ticket, "{}", form.text);
        let csrf = form.field("csrf");
        let fields = [("csrf", csrf.as_str()), ("login", ticket), ("credential", key.expose_secret())];
        let answer = self.post("/oauth/sign-in", &fields).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
        assert_eq!(answer.location(), format!("start?login={ticket}"));
        self.get(link).await
    }

    /// Agrees on `page`, and returns the URL of the login service.
    pub(crate) async fn agree(&mut self, page: &Shown) -> Url {
        let fields = [("csrf", page.field("csrf")), ("agreement", page.field("agreement"))];
        let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
        let answer = self.post("/oauth/start", &fields).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
        Url::parse(answer.location()).expect("a URL")
    }
}

/// Returns the path to which the login service sends the browser back from `url`, with `answer` as the query.
pub(crate) fn back_from(url: &Url, answer: &str) -> String {
    let state = url.query_pairs().find(|(name, _)| name == "state").expect("a state").1;
    format!("/oauth/callback?state={state}&{answer}")
}

/// A page as a browser got it.
pub(crate) struct Shown {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Shown {
    /// The value of a hidden field.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> String {
        let start = format!("name=\"{name}\" value=\"");
        let value = self.text.split_once(&start).and_then(|(_, rest)| rest.split_once('"'));
        value.unwrap_or_else(|| panic!("no {name}: {}", self.text)).0.to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    pub(crate) fn location(&self) -> &str {
        self.header(LOCATION.as_str())
    }

    /// The status and the heading.
    pub(crate) fn heading(&self) -> (u16, &str) {
        let heading = self.text.split_once("<h1>").and_then(|(_, rest)| rest.split_once("</h1>"));
        (self.status.as_u16(), heading.map_or("", |(heading, _)| heading))
    }
}

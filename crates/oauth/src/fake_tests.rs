//! A small authorization server for tests: answers by path, and a record of its requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use runtime::shutdown::Shutdown;
use serde_json::{Value, json};
use testkit::served::Served;
use url::{Url, form_urlencoded};

use crate::config::{ClientAuthentication, Settings};
use crate::dial::Services;
use crate::discovery::Discovered;
use crate::metadata::AuthorizationServer;
use crate::registration::{OwnClient, Registration};

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    /// `POST /token`.
    pub(crate) line: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: String,
}

impl ReceivedRequest {
    /// The value of a field of the form.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.body.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }
}

type Answers = BTreeMap<String, (u16, String, String)>;

/// A server on loopback. A path without an answer is 404.
pub(crate) struct Fake {
    served: Served,
    answers: Arc<Mutex<Answers>>,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    /// A field of forms, and the answer to requests that have it.
    refused: Arc<Mutex<Option<(String, u16, String)>>>,
}

impl Fake {
    pub(crate) fn start() -> Self {
        let (answers, seen) = (Arc::new(Mutex::new(Answers::new())), Arc::new(Mutex::new(Vec::new())));
        let refused = Arc::new(Mutex::new(None::<(String, u16, String)>));
        let (from, log, of_field) = (Arc::clone(&answers), Arc::clone(&seen), Arc::clone(&refused));
        let serve = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let authorization = headers.get("authorization").and_then(|value| value.to_str().ok());
            let seen = ReceivedRequest {
                line: format!("{method} {uri}"),
                authorization: authorization.map(str::to_owned),
                body: String::from_utf8_lossy(&body).into_owned(),
            };
            let refusal = of_field.lock().expect("lock").clone();
            let refusal = refusal.filter(|(field, ..)| seen.field(field).is_some());
            log.lock().expect("lock").push(seen);
            let answer = from.lock().expect("lock").get(uri.path()).cloned();
            let answer = refusal.map(|(_, status, body)| (status, String::new(), body)).or(answer);
            async move { answered(answer) }
        };
        Self { served: Served::start(Router::new().fallback(serve)), answers, seen, refused }
    }

    /// Answers requests whose form has the field `name` with `status` and `body` from now on.
    pub(crate) fn refuses(&self, name: &str, status: u16, body: &str) {
        *self.refused.lock().expect("lock") = Some((name.to_owned(), status, body.to_owned()));
    }

    /// Answers requests for `path` with `body` from now on.
    pub(crate) fn json(&self, path: &str, body: &Value) {
        self.answer(path, 200, "", &body.to_string());
    }

    /// Answers with a status, the value of `Retry-After` or `Location`, and a body.
    pub(crate) fn answer(&self, path: &str, status: u16, header: &str, body: &str) {
        let answer = (status, header.to_owned(), body.to_owned());
        self.answers.lock().expect("lock").insert(path.to_owned(), answer);
    }

    pub(crate) fn seen(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().expect("lock").clone()
    }

    /// The lines of all requests.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }

    pub(crate) fn origin(&self) -> String {
        self.served.url()
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("{}{path}", self.origin())).expect("a URL")
    }

    pub(crate) fn services(&self) -> Services {
        Services::new(&self.url("/mcp"), &[], &net::http::Network::default(), &Shutdown::new())
    }

    /// Metadata of the issuer at `path`, with all that a login needs.
    pub(crate) fn metadata(&self, path: &str) -> Value {
        let issuer = format!("{}{path}", self.origin());
        json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "registration_endpoint": format!("{issuer}/register"),
            "revocation_endpoint": format!("{issuer}/revoke"),
            "code_challenge_methods_supported": ["S256"],
        })
    }

    pub(crate) fn discovered(&self) -> Discovered {
        let server: AuthorizationServer = serde_json::from_value(self.metadata("")).expect("metadata");
        Discovered {
            resource: "https://mcp.example.com".into(),
            scopes: vec!["a".into(), "b".into()],
            server,
        }
    }

    pub(crate) fn registration(&self, authentication: ClientAuthentication) -> Registration {
        Registration {
            issuer: self.origin(),
            client_id: "the id".into(),
            client_secret: Some("canary:secret+/".into()),
            authentication,
            redirect_uri: own().redirect_uri.to_string(),
            scopes: vec!["a".into(), "b".into()],
            expires_at: None,
        }
    }
}

fn answered(answer: Option<(u16, String, String)>) -> Response {
    let Some((status, header, body)) = answer else { return StatusCode::NOT_FOUND.into_response() };
    let status = StatusCode::from_u16(status).expect("a status");
    let name = if status.is_redirection() { "location" } else { "retry-after" };
    if header.is_empty() {
        (status, body).into_response()
    } else {
        (status, [(name, header)], body).into_response()
    }
}

pub(crate) fn own() -> OwnClient {
    let redirect_uri = Url::parse("http://127.0.0.1:8000/oauth/callback").expect("a URL");
    OwnClient { redirect_uri, client_metadata_url: None }
}

pub(crate) fn settings() -> Settings {
    Settings::default()
}

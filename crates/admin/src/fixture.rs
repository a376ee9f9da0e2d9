//! Test support of this crate: a gateway in memory, requests to its router, and a check of every
//! answer against the `OpenAPI` document.

use std::io::Read as _;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzEncoder;
use serde_json::Value;
use tower::ServiceExt;

use super::{Loaded, Options, Reload, Reloaded};
use auth::vault::{Vault, VaultConfig};
use auth::{Principal, Role};
use gateway::manager::config::Config;
use gateway::manager::{Applied, Manager, Scope, View};
use json::Raw;
use protocol::{Version, method};
use runtime::shutdown::Shutdown;
pub(super) use upstream::fake::{Answer, Dial, Fake};

/// A gateway whose servers exist in memory only.
pub(super) struct Gateway {
    pub(super) manager: Arc<Manager>,
    pub(super) drain: Shutdown,
    router: Router,
    document: Value,
    /// The options of the router.
    pub(super) options: Options,
    /// The folder of `keys_file` and of the vault.
    pub(super) folder: tempfile::TempDir,
}

impl Gateway {
    /// Creates a gateway with these servers, and waits until their first attempts to connect have
    /// ended.
    pub(super) async fn of(servers: Vec<(upstream::Config, Fake)>) -> Self {
        let gateway = Self::starting(servers);
        gateway.manager.settled(&Scope::ALL, Duration::from_mins(5)).await;
        gateway
    }

    /// Creates a gateway whose servers may still be connecting.
    pub(super) fn starting(servers: Vec<(upstream::Config, Fake)>) -> Self {
        let (configs, fakes): (Vec<_>, Vec<_>) = servers.into_iter().unzip();
        let view = View::of("support", Some(&["*"]), None, &[]).expect("rules");
        let folder = tempfile::tempdir().expect("a folder");
        let vault = VaultConfig { path: folder.path().join("vault.json"), keys: Vec::new() };
        let config =
            Config { views: vec![Arc::new(view)], vault: Some(Vault::new(vault)), ..Config::of(configs) };
        let connectors = fakes.iter().map(Fake::connector).collect();
        let manager = Manager::with_connectors(config, connectors, Shutdown::new());
        let drain = Shutdown::new();
        let unchanged = Reloaded { applied: Applied::default(), at_restart: Vec::new() };
        let reload: Reload = Arc::new(move || Box::pin(std::future::ready(Ok(unchanged.clone()))));
        let loaded = Loaded {
            settings: Raw::of(&serde_json::json!({"a": "${A}"})),
            at: UNIX_EPOCH,
            file: "mcp_servers.yaml".into(),
        };
        let file = auth::KeyFile { path: folder.path().join("keys.json") };
        let keys = auth::ApiKeyList { listed: vec![key("listed")], file: Some(file) };
        let authenticator = auth::Authenticator::new(&auth::Config::ApiKey(keys)).expect("no file yet");
        let options = Options {
            configuration: Some(Arc::new(move || loaded.clone())),
            max_body: 64 * 1024,
            document: Some(document()),
            drain: drain.clone(),
            reload: Some(reload),
            edit_entry: Some(Arc::new(|_, _, _| Ok(super::EditedEntry::default()))),
            authenticator: Some(Arc::new(authenticator)),
            certificate_views: std::collections::BTreeMap::new(),
            logins: Some(super::logins::tests::in_memory()),
            grants: None,
            count_clients: None,
            gateway: None,
        };
        let document = super::operations::described();
        Self {
            router: super::router(manager.clone(), options.clone()),
            manager,
            drain,
            options,
            folder,
            document: serde_json::to_value(document).expect("JSON"),
        }
    }

    /// Returns this gateway with an authorization server, whose store is a folder.
    pub(super) async fn with_grants(mut self) -> Self {
        let authenticator = self.options.authenticator.clone().expect("the fixture has one");
        let vault = VaultConfig { path: self.folder.path().join("keys-of-tokens.json"), keys: Vec::new() };
        let parts = authorization::Parts {
            vault: Vault::new(vault),
            store: Arc::new(authorization::FolderStore::new(&self.folder.path().join("grants"))),
            host: Arc::new(Everybody(Arc::clone(&authenticator))),
            network: net::http::Network::default(),
            shutdown: Shutdown::new(),
        };
        let (issuer, clients) = ("https://gw.example".to_owned(), Vec::new());
        let config = authorization::Config { issuer, registers: true, clients, trusted_hosts: Vec::new() };
        let server = authorization::AuthorizationServer::open(config, parts, SystemTime::now()).await;
        let server = Arc::new(server.expect("keys"));
        authenticator.accept_tokens_of(server.clone());
        self.options.grants = Some(server);
        self.router = super::router(self.manager.clone(), self.options.clone());
        self
    }

    pub(super) async fn get(&self, path: &str) -> Answered {
        self.ask(request(Method::GET, path, Some(Role::Reader), "")).await
    }

    pub(super) async fn post(&self, path: &str, body: &str) -> Answered {
        self.ask(request(Method::POST, path, Some(Role::Superuser), body)).await
    }

    /// `POST /call` as a superuser.
    pub(super) async fn call(&self, body: &str) -> Answered {
        self.post("/api/v1/mcp/call", body).await
    }

    /// Sends a request, and returns its response with an unread body.
    pub(super) async fn open(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.expect("infallible")
    }

    /// Sends a request, and checks that the document describes the answer.
    pub(super) async fn ask(&self, request: Request<Body>) -> Answered {
        let (method, path) = (request.method().as_str().to_lowercase(), request.uri().path().to_owned());
        let answer = self.router.clone().oneshot(request).await.expect("infallible");
        let (parts, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.expect("a body in memory");
        let answered = Answered { status: parts.status, headers: parts.headers, body };
        if let Some(operation) = self.operation(&method, &path) {
            self.check(operation, &answered);
        }
        answered
    }

    /// Method and path of every operation in the document.
    pub(super) fn operations(&self) -> Vec<(Method, String)> {
        let paths = self.document["paths"].as_object().expect("paths");
        let of = |(path, item): (&String, &Value)| {
            let methods: Vec<String> = item.as_object().expect("an item").keys().cloned().collect();
            let path = path.clone();
            methods.into_iter().filter_map(move |method| {
                Some((method.to_uppercase().parse().ok()?, path.clone())).filter(|_| method != "parameters")
            })
        };
        paths.iter().flat_map(of).collect()
    }

    fn operation(&self, method: &str, path: &str) -> Option<&Value> {
        let paths = self.document["paths"].as_object().expect("paths");
        let fits = |template: &str| {
            let (template, path): (Vec<&str>, Vec<&str>) =
                (template.split('/').collect(), path.split('/').collect());
            template.len() == path.len()
                && template
                    .iter()
                    .zip(path)
                    .all(|(expected, part)| expected.starts_with('{') || *expected == part)
        };
        paths.iter().find(|(template, _)| fits(template)).and_then(|(_, item)| item.get(method))
    }

    fn check(&self, operation: &Value, answered: &Answered) {
        let status = answered.status.as_str();
        let response = &operation["responses"][status];
        assert!(response.is_object(), "{}: {status} is not documented", operation["operationId"]);
        let content = response["content"].as_object().expect("content");
        let media_type = answered.header("content-type");
        let schema = &content.get(media_type).unwrap_or_else(|| panic!("{status} as {media_type}"))["schema"];
        if !media_type.contains("json") {
            // Tools disagree on what the schema of an event stream describes, so it describes nothing.
            let expected = if media_type == "text/event-stream" { Value::Null } else { "string".into() };
            assert_eq!(schema["type"], expected);
            return;
        }
        if let Err(wrong) = fits(&self.document, schema, &answered.json()) {
            panic!("{} {status}: {wrong}\n{}", operation["operationId"], answered.text());
        }
        let documents_retry = response["headers"]["Retry-After"].is_object();
        assert!(documents_retry || !answered.headers.contains_key("retry-after"));
    }
}

/// Checks that `value` matches `schema`; undescribed members are errors.
pub(super) fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let found = document.pointer(&reference[1..]).ok_or(format!("{reference} is nowhere"))?;
        return fits(document, found, value);
    }
    if schema["allOf"].is_array() {
        return fits(document, &merged(document, schema), value);
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(schemas) = schema[choice].as_array() {
            let fitting = schemas.iter().any(|schema| fits(document, schema, value).is_ok());
            return fitting.then_some(()).ok_or(format!("{value} fits none of {schemas:?}"));
        }
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        return Err(format!("{value} is none of {allowed:?}"));
    }
    has_type(&schema["type"], value)?;
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        items.iter().try_for_each(|item| fits(document, schema, item))?;
    }
    let (Some(members), Some(described)) = (value.as_object(), schema["properties"].as_object()) else {
        return Ok(());
    };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in required {
        members.get(name).ok_or(format!("{name} is missing"))?;
    }
    members.iter().try_for_each(|(name, value)| {
        let schema = described.get(name).ok_or(format!("{name} is not described"))?;
        let ms = value.as_f64().unwrap_or_default();
        if name.ends_with("_ms") && ((ms * 1000.0).round() / 1000.0 - ms).abs() > f64::EPSILON {
            return Err(format!("{name}: {value} has over three decimals"));
        }
        fits(document, schema, value).map_err(|wrong| format!("{name}: {wrong}"))
    })
}

/// The members of all parts of an object.
fn merged(document: &Value, schema: &Value) -> Value {
    let schema =
        schema["$ref"].as_str().map_or(schema, |path| document.pointer(&path[1..]).expect("a schema"));
    let Some(parts) = schema["allOf"].as_array() else { return schema.clone() };
    let mut whole = serde_json::json!({"type": "object", "properties": {}, "required": []});
    for part in parts.iter().map(|part| merged(document, part)) {
        let properties = part["properties"].as_object().expect("members").clone();
        whole["properties"].as_object_mut().expect("members").extend(properties);
        let required = part["required"].as_array().expect("names").clone();
        whole["required"].as_array_mut().expect("names").extend(required);
    }
    whole
}

fn has_type(schema: &Value, value: &Value) -> Result<(), String> {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let accepts = |name: &Value| name == found || (name == "number" && found == "integer");
    let ok = match schema {
        Value::Null => true,
        Value::Array(names) => names.iter().any(accepts),
        name => accepts(name),
    };
    ok.then_some(()).ok_or(format!("found {found}, expected {schema}"))
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answered {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// The status and the code of a problem document.
    #[track_caller]
    pub(super) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text());
        let document = self.json();
        assert_eq!(document["status"], self.status.as_u16());
        assert_eq!(document["request_id"], self.header("x-request-id"));
        let code = document["code"].as_str().expect("a code").to_owned();
        assert_eq!(document["type"], format!("/docs/errors#{code}"));
        (self.status.as_u16(), code)
    }
}

/// A gateway on which everybody may call tools, with one view.
struct Everybody(Arc<auth::Authenticator>);

impl authorization::Host for Everybody {
    fn rights(&self, _: &str) -> Option<authorization::Access> {
        Some(authorization::Access { role: Role::Caller, view: None })
    }

    fn endpoint(&self, name: &str) -> Option<authorization::Endpoint> {
        (name == "support").then_some(authorization::Endpoint::View)
    }

    fn grant_ended(&self, id: &str) {
        self.0.end_grant(id);
    }
}

/// A key of the configuration file.
fn key(id: &str) -> auth::ApiKey {
    let (_, hash) = auth::generate(id);
    auth::ApiKey {
        id: id.to_owned(),
        hash: auth::KeyHash::Sha256(hash),
        role: Role::Caller,
        expires: None,
        view: None,
    }
}

/// A request of a principal with `role`, or without a principal.
pub(super) fn request(method: Method, path: &str, role: Option<Role>, body: &str) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:8080");
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    let mut request = request.body(Body::from(body.to_owned())).expect("a request");
    if let Some(role) = role {
        request.extensions_mut().insert(Principal::new("somebody", role));
    }
    request
}

/// A server with one tool, `echo`.
pub(super) fn server(name: &str) -> (upstream::Config, Fake) {
    (upstream::fake::config(name), Fake::new(Version::V2025_11_25))
}

/// A server with this list of tools, and also a resource and three prompts.
pub(super) fn server_with_tools(name: &str, tools: &'static str) -> (upstream::Config, Fake) {
    let (config, fake) = server(name);
    let list = raw(&format!(r#"{{"tools":{tools}}}"#));
    fake.capabilities(&serde_json::json!({"tools": {}, "resources": {}, "prompts": {}}));
    fake.answer(move |call| {
        Some(Answer::Reply(Ok(match call.method.as_str() {
            method::TOOLS_LIST => list.clone(),
            method::RESOURCES_LIST => raw(r#"{"resources":[{"uri":"memo:a","name":"a"}]}"#),
            method::RESOURCE_TEMPLATES_LIST => raw(r#"{"resourceTemplates":[]}"#),
            method::PROMPTS_LIST => raw(r#"{"prompts":[{"name":"a"},{"name":"b"},{"name":"c"}]}"#),
            _ => return None,
        })))
    });
    (config, fake)
}

pub(super) fn raw(text: &str) -> Raw {
    Raw::parse(&Bytes::copy_from_slice(text.as_bytes())).expect("JSON")
}

/// The document of the operations, as the program has it.
fn document() -> &'static [u8] {
    static DOCUMENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let text = super::openapi_base::printed(&super::operations::described());
        let mut compressed = Vec::new();
        GzEncoder::new(text.as_bytes(), Compression::fast()).read_to_end(&mut compressed).expect("in memory");
        compressed
    });
    &DOCUMENT
}

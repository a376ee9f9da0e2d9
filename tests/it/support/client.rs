//! A transparent MCP client over HTTP: it sends exactly the given bytes and returns exactly the
//! received ones. Both eras; no retries, no caches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::Answer;
use super::{WAIT, sse};

/// The modern revision that this client speaks.
pub const MODERN: &str = "2026-07-28";
/// The newest legacy revision.
pub const LEGACY: &str = "2025-11-25";

/// Sends requests to one endpoint.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    headers: HeaderMap,
    ids: Arc<AtomicU64>,
}

impl Client {
    /// A client of the endpoint at `url`.
    pub fn at(url: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(WAIT).build().expect("a client");
        Self::with(http, url)
    }

    /// A client of the endpoint at `url` that sends with `http`.
    pub fn with(http: reqwest::Client, url: &str) -> Self {
        Self { http, url: url.to_owned(), headers: HeaderMap::new(), ids: Arc::new(AtomicU64::new(1)) }
    }

    /// Returns a client of another endpoint that shares the connections.
    pub fn to(&self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self.clone() }
    }

    /// Adds a header to every request of this client.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::try_from(name).expect("a header name");
        self.headers.insert(name, HeaderValue::try_from(value).expect("a header value"));
        self
    }

    /// Returns a header that every request has.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Sends one modern request with all required members.
    pub async fn modern(&self, method: &str, params: Value) -> Answer {
        self.modern_text(method, &params.to_string()).await
    }

    /// Sends one modern request with `params` as text, so that the test chooses its bytes. `_meta`
    /// is appended.
    pub async fn modern_text(&self, method: &str, params: &str) -> Answer {
        Answer::read(self.open_modern(method, params).await).await
    }

    /// Sends one modern request and returns the event stream while it runs.
    pub async fn modern_stream(&self, method: &str, params: &Value) -> Stream {
        Stream::of(self.open_modern(method, &params.to_string()).await)
    }

    /// Calls a tool in the modern era.
    pub async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.modern("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Performs the complete legacy handshake.
    pub async fn legacy(&self) -> Session {
        self.legacy_of(LEGACY).await
    }

    /// Performs the legacy handshake and requests one revision.
    pub async fn legacy_of(&self, version: &str) -> Session {
        self.legacy_with(version, &json!({})).await
    }

    /// Performs the legacy handshake as a client with `capabilities`.
    pub async fn legacy_with(&self, version: &str, capabilities: &Value) -> Session {
        let params =
            json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client_info()});
        let body = self.envelope("initialize", &params.to_string());
        let initialized = self.post(&body, &[]).await;
        assert_eq!(initialized.status, 200, "{initialized:?}");
        let mut client = self.clone();
        if let Some(id) = initialized.header("mcp-session-id") {
            client = client.with_header("mcp-session-id", id);
        }
        let version = initialized.result()["protocolVersion"].as_str().expect("a version").to_owned();
        if version.as_str() >= "2025-06-18" {
            client = client.with_header("mcp-protocol-version", &version);
        }
        let ready = client.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, &[]).await;
        assert_eq!((ready.status, ready.body.as_str()), (202, ""), "{ready:?}");
        let server = initialized.result();
        Session { client, version, server }
    }

    /// Sends a POST with `body` unchanged, and with `headers` in addition to the usual ones.
    pub async fn post(&self, body: &str, headers: &[(&str, &str)]) -> Answer {
        Answer::read(self.open(body, headers).await).await
    }

    /// Sends a POST and returns the event stream while it runs.
    pub async fn post_stream(&self, body: &str, headers: &[(&str, &str)]) -> Stream {
        Stream::of(self.open(body, headers).await)
    }

    /// Sends a request without a body, such as GET or DELETE.
    pub async fn bare(&self, method: http::Method, headers: &[(&str, &str)]) -> Answer {
        Answer::read(self.send(self.http.request(method, &self.url), headers).await).await
    }

    /// Opens the legacy stream of messages that belong to no request.
    pub async fn listen(&self) -> Stream {
        let request = self.http.get(&self.url).header("accept", "text/event-stream");
        Stream::of(self.send(request, &[]).await)
    }

    /// Returns the body of a modern request: the required members are in `_meta`, after `params`.
    pub fn modern_body(&self, method: &str, params: &str) -> String {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": client_info(),
        });
        self.envelope(method, &with_meta(params, &meta))
    }

    /// Returns the body of a request with the next id.
    pub fn envelope(&self, method: &str, params: &str) -> String {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    }

    async fn open_modern(&self, method: &str, params: &str) -> reqwest::Response {
        let named: PromptName = serde_json::from_str(params).expect("JSON");
        let name = if method == "resources/read" { &named.uri } else { &named.name };
        let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
        let name = name.as_deref().map(protocol::headers::encode);
        headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        self.open(&self.modern_body(method, params), &headers).await
    }

    async fn open(&self, body: &str, headers: &[(&str, &str)]) -> reqwest::Response {
        let request = self.http.post(&self.url).body(body.to_owned());
        let usual = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        let usual = usual.into_iter().filter(|(name, _)| !headers.iter().any(|(own, _)| own == name));
        let request = usual.fold(request, |request, (name, value)| request.header(name, value));
        self.send(request, headers).await
    }

    async fn send(&self, request: reqwest::RequestBuilder, headers: &[(&str, &str)]) -> reqwest::Response {
        let request = request.headers(self.headers.clone());
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.unwrap_or_else(|error| panic!("{}: {error:?}", self.url))
    }
}

/// Parameters that a modern request repeats in a header.
#[derive(Deserialize)]
struct PromptName {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    uri: Option<String>,
}

/// A legacy session.
#[derive(Debug, Clone)]
pub struct Session {
    /// The client, which sends the session's headers.
    pub client: Client,
    /// The negotiated revision.
    pub version: String,
    /// The server's description of itself.
    pub server: Value,
}

impl Session {
    /// Sends one request in the session.
    pub async fn request(&self, method: &str, params: Value) -> Answer {
        self.request_text(method, &params.to_string()).await
    }

    /// Sends one request with `params` as text.
    pub async fn request_text(&self, method: &str, params: &str) -> Answer {
        self.client.post(&self.client.envelope(method, params), &[]).await
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Deletes the session.
    pub async fn delete(&self) -> Answer {
        self.client.bare(http::Method::DELETE, &[]).await
    }
}

/// An event stream that is read while it runs.
pub struct Stream {
    response: futures_util::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: String,
    read: usize,
    /// Whether the stream broke. For its reader that also ends it.
    pub is_broken: bool,
}

impl Stream {
    fn of(response: reqwest::Response) -> Self {
        assert_eq!(response.status().as_u16(), 200, "{response:?}");
        Self { response: response.bytes_stream().boxed(), text: String::new(), read: 0, is_broken: false }
    }

    /// The next message; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            let event = self.event().await?;
            if !event.data.is_empty() {
                return Some(serde_json::from_str(&event.data).expect("JSON"));
            }
        }
    }

    /// The next event; `None` when the stream has ended.
    pub async fn event(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(event) = sse::events(&self.text).into_iter().nth(self.read) {
                self.read += 1;
                return Some(event);
            }
            let chunk = tokio::time::timeout(WAIT, self.response.next()).await;
            let chunk = chunk.expect("something comes")?;
            self.is_broken = chunk.is_err();
            self.text.push_str(std::str::from_utf8(&chunk.ok()?).expect("UTF-8"));
        }
    }
}

/// The name and version that the tests send.
pub fn client_info() -> Value {
    json!({"name": "switchyard-tests", "version": "1"})
}

fn with_meta(params: &str, meta: &Value) -> String {
    let open = params.trim_end().strip_suffix('}').expect("params are an object");
    let comma = if open.trim_end().ends_with('{') { "" } else { "," };
    if open.contains("\"_meta\"") {
        return params.to_owned();
    }
    format!(r#"{open}{comma}"_meta":{meta}}}"#)
}

//! State and decisions of a scripted server, independent of the transport.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use ::http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::super::client::MODERN;
use super::{Act, Tool};

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28 only.
    Modern,
    /// 2025-03-26 to 2025-11-25, with sessions.
    Legacy,
    /// 2024-11-05.
    Sse,
}

/// One HTTP request as it arrived.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// `POST`, `GET`, `DELETE`.
    pub http_method: String,
    /// All headers.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: String,
    /// The `method` of the JSON-RPC message in it.
    pub rpc_method: Option<String>,
}

impl ReceivedRequest {
    /// `params`, byte for byte.
    pub fn params(&self) -> String {
        let envelope: Envelope<'_> = serde_json::from_str(&self.body).expect("a message");
        envelope.params.expect("params").get().to_owned()
    }

    /// One header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// The members of a JSON-RPC message, with their original bytes.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// Absent in a notification.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    /// Absent in a response.
    #[serde(default)]
    pub method: Option<String>,
    /// Absent if the method needs none.
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
}

/// The members of `params` that the server reads.
#[derive(Debug, Default, Deserialize)]
pub struct Known {
    /// The name of the tool.
    #[serde(default)]
    pub name: Option<String>,
    /// The cursor of the page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// The revision that a handshake requests.
    #[serde(default, rename = "protocolVersion")]
    pub version: String,
    /// The client's description of itself, in the modern era.
    #[serde(default, rename = "_meta")]
    pub meta: Value,
}

impl Envelope<'_> {
    /// Returns the members of `params` that the server reads. The rest is not parsed: `1e400` is
    /// not a valid `Value`.
    pub fn known(&self) -> Known {
        self.params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    /// The id as JSON text.
    pub fn id_text(&self) -> &str {
        self.id.map_or("null", RawValue::get)
    }
}

/// The reaction to a request.
#[derive(Debug)]
pub enum Outcome {
    /// One response.
    Message(String),
    /// Messages on the stream of the request, the last one being its response.
    Stream(Vec<String>),
    /// Messages on the stream of the request, with a pause before each.
    Paced(Duration, Vec<String>),
    /// A bare HTTP status, with `Retry-After`.
    Status(u16, Option<u64>),
    /// A redirect (307) to this URL.
    Redirect(String),
    /// One response after a while.
    Later(Duration, String),
    /// Nothing, forever.
    Hang,
    /// The connection closes before the first byte.
    Drop,
    /// The connection closes in the middle of this text.
    Cut(String),
    /// The stream of notifications, tagged with this id (JSON).
    Listen(String),
}

#[derive(Debug)]
pub struct State {
    pub era: Era,
    page: usize,
    /// Errors of refused requests, by method.
    refusals: HashMap<String, String>,
    /// Complete lists, by the member that contains them.
    lists: BTreeMap<String, String>,
    inside: Mutex<Inside>,
    /// Notifications for all listeners.
    pub notices: broadcast::Sender<String>,
}

#[derive(Debug, Default)]
struct Inside {
    tools: Vec<Tool>,
    runs: HashMap<String, usize>,
    seen: Vec<ReceivedRequest>,
    sessions: HashSet<String>,
    named: usize,
    /// The required value of `Authorization`.
    tokens: Option<Vec<String>>,
    /// Results by method, the next one last.
    answers: HashMap<String, Vec<String>>,
}

/// Complete lists by the member that contains them, results by method, errors by method.
type Prepared = (BTreeMap<String, String>, HashMap<String, Vec<String>>, HashMap<String, String>);

impl State {
    pub fn new(era: Era, tools: Vec<Tool>, page: usize, (lists, answers, refusals): Prepared) -> Self {
        let inside = Mutex::new(Inside { tools, answers, ..Inside::default() });
        Self { era, page, refusals, lists, inside, notices: broadcast::channel(64).0 }
    }

    pub fn accepts(&self, sent: Option<&str>) -> bool {
        let tokens = &self.lock().tokens;
        tokens.as_ref().is_none_or(|tokens| tokens.iter().any(|token| Some(token.as_str()) == sent))
    }

    pub fn wants_tokens(&self, tokens: &[&str]) {
        self.lock().tokens = Some(tokens.iter().map(|token| format!("Bearer {token}")).collect());
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("no panic holds it")
    }

    pub fn runs(&self, tool: &str) -> usize {
        self.lock().runs.get(tool).copied().unwrap_or(0)
    }

    pub fn seen(&self) -> Vec<ReceivedRequest> {
        self.lock().seen.clone()
    }

    pub fn remember(&self, seen: ReceivedRequest) {
        self.lock().seen.push(seen);
    }

    pub fn change_tools(&self, tools: Vec<Tool>) {
        self.lock().tools = tools;
        // An error means that there is no listener.
        let _ = self.notices.send("notifications/tools/list_changed".to_owned());
    }

    pub fn forget_sessions(&self) {
        self.lock().sessions.clear();
    }

    pub fn session_count(&self) -> usize {
        self.lock().sessions.len()
    }

    pub fn open_session(&self) -> String {
        let mut inside = self.lock();
        inside.named += 1;
        let id = format!("session-{}", inside.named);
        inside.sessions.insert(id.clone());
        id
    }

    pub fn has_session(&self, id: &str) -> bool {
        self.lock().sessions.contains(id)
    }

    pub fn close_session(&self, id: &str) -> bool {
        self.lock().sessions.remove(id)
    }

    /// Chooses the reaction to a request whose session and headers were checked.
    pub fn answer(&self, request: &Envelope<'_>) -> Outcome {
        let result = |value: Value| Outcome::Message(response(request, "result", &value.to_string()));
        if let Some(said) = request.method.as_ref().and_then(|method| self.refusals.get(method)) {
            return Outcome::Message(error(request, -32001, said));
        }
        if let Some(text) = self.prepared(request.method.as_deref().unwrap_or_default()) {
            return Outcome::Message(response(request, "result", &text));
        }
        match request.method.as_deref() {
            Some("initialize") => result(initialized(&request.known().version, &self.capabilities())),
            Some("server/discover") => result(self.complete(json!({
                "supportedVersions": [MODERN], "capabilities": self.capabilities(),
                "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
            }))),
            Some("ping") => result(json!({})),
            Some("tools/list") => self.list(request),
            Some("tools/call") => self.call(request),
            Some("subscriptions/listen") => Outcome::Listen(request.id_text().to_owned()),
            _ => Outcome::Message(error(request, -32601, "no such method")),
        }
    }

    /// Returns the prepared result of `method`, or a complete list.
    fn prepared(&self, method: &str) -> Option<String> {
        if let Some(answer) = self.lock().answers.get_mut(method).and_then(Vec::pop) {
            return Some(answer);
        }
        let member = match method {
            "tools/list" => "tools",
            "prompts/list" => "prompts",
            "resources/list" => "resources",
            "resources/templates/list" => "resourceTemplates",
            "skills/list" => "skills",
            _ => return None,
        };
        let list = self.lists.get(member)?;
        let more = match self.era {
            Era::Modern => r#","resultType":"complete","ttlMs":0,"cacheScope":"public""#,
            Era::Legacy | Era::Sse => "",
        };
        Some(format!(r#"{{"{member}":{list}{more}}}"#))
    }

    fn capabilities(&self) -> Value {
        let mut all = json!({"tools": {"listChanged": true}});
        if self.lists.contains_key("skills") {
            all["extensions"] = json!({"io.modelcontextprotocol/skills": {"directoryRead": true}});
            all["resources"] = json!({});
        }
        for member in self.lists.keys().filter(|member| *member != "skills") {
            let name = if member == "resourceTemplates" { "resources" } else { member };
            all[name] = json!({"listChanged": true});
        }
        all
    }

    fn list(&self, request: &Envelope<'_>) -> Outcome {
        let inside = self.lock();
        let cursor = request.known().cursor.as_deref().map_or(Ok(0), str::parse::<usize>);
        let Some(rest) = cursor.ok().and_then(|start| inside.tools.get(start..)) else {
            return Outcome::Message(error(request, -32602, "no such cursor"));
        };
        let shown = &rest[..rest.len().min(self.page)];
        let definitions: Vec<&str> = shown.iter().map(|tool| tool.definition.as_str()).collect();
        let mut result = format!(r#"{{"tools":[{}]"#, definitions.join(","));
        if shown.len() < rest.len() {
            let next = inside.tools.len() - rest.len() + shown.len();
            result = format!(r#"{result},"nextCursor":"{next}""#);
        }
        if self.era == Era::Modern {
            result.push_str(r#","resultType":"complete","ttlMs":0,"cacheScope":"public""#);
        }
        result.push('}');
        Outcome::Message(response(request, "result", &result))
    }

    fn call(&self, request: &Envelope<'_>) -> Outcome {
        let known = request.known();
        let name = known.name.unwrap_or_default();
        let act = {
            let mut inside = self.lock();
            let Some(tool) = inside.tools.iter().find(|tool| tool.name == name) else {
                return Outcome::Message(error(request, -32602, "unknown tool"));
            };
            let acts = tool.acts.clone();
            let run = inside.runs.entry(name.clone()).or_default();
            *run += 1;
            acts.get(*run - 1).or(acts.last()).cloned().unwrap_or(Act::Echo)
        };
        self.perform(request, &known.meta["progressToken"], act)
    }

    fn perform(&self, request: &Envelope<'_>, token: &Value, act: Act) -> Outcome {
        match act {
            Act::Echo => Outcome::Message(response(request, "result", &self.echo(request))),
            Act::Result(text) => Outcome::Message(response(request, "result", &text)),
            Act::Error(text) => Outcome::Message(response(request, "error", &text)),
            Act::After(messages, last) => {
                let token = token.to_string();
                let mut all: Vec<String> =
                    messages.iter().map(|message| message.replace("\"$TOKEN\"", &token)).collect();
                match self.perform(request, &Value::Null, *last) {
                    Outcome::Message(response) => all.push(response),
                    other => panic!("only an answer can come after messages, not {other:?}"),
                }
                Outcome::Stream(all)
            }
            Act::Paced(pause, messages, last) => {
                match self.perform(request, token, Act::After(messages, last)) {
                    Outcome::Stream(all) => Outcome::Paced(pause, all),
                    other => panic!("messages are a stream, not {other:?}"),
                }
            }
            Act::Status(status, retry_after) => Outcome::Status(status, retry_after),
            Act::Redirect(target) => Outcome::Redirect(target),
            Act::Slow(pause) => Outcome::Later(pause, response(request, "result", &self.echo(request))),
            Act::Hang => Outcome::Hang,
            Act::Drop => Outcome::Drop,
            Act::Cut => Outcome::Cut(response(request, "result", &self.echo(request))),
        }
    }

    fn echo(&self, request: &Envelope<'_>) -> String {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow, default)]
            arguments: Option<&'a RawValue>,
        }
        let params = request.params.map_or("{}", RawValue::get);
        let params: Params<'_> = serde_json::from_str(params).expect("params are an object");
        let text = params.arguments.map_or("(none)", RawValue::get);
        self.complete(json!({"content": [{"type": "text", "text": text}]})).to_string()
    }

    fn complete(&self, mut result: Value) -> Value {
        if self.era == Era::Modern {
            result["resultType"] = "complete".into();
        }
        if self.era == Era::Modern && result.get("supportedVersions").is_some() {
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "public".into();
        }
        result
    }
}

fn initialized(asked: &str, capabilities: &Value) -> Value {
    let known = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
    let version = if known.contains(&asked) { asked } else { "2025-11-25" };
    json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": server_info()})
}

/// A response with one member that is inserted unchanged.
pub fn response(request: &Envelope<'_>, member: &str, value: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"{member}":{value}}}"#, request.id_text())
}

/// An error response.
pub fn error(request: &Envelope<'_>, code: i64, message: &str) -> String {
    response(request, "error", &json!({"code": code, "message": message}).to_string())
}

/// A notification for one subscription of the modern era.
pub fn tagged(method: &str, id: &str) -> String {
    let honoured = match method {
        "notifications/subscriptions/acknowledged" => r#","notifications":{"toolsListChanged":true}"#,
        _ => "",
    };
    let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"_meta":{meta}{honoured}}}}}"#)
}

/// A notification of the legacy era.
pub fn plain(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)
}

fn server_info() -> Value {
    json!({"name": "scripted", "version": "1"})
}

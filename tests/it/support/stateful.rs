//! A legacy server that keeps state for each of its clients: its answers, notifications and requests, without
//! a transport. It applies roots a moment after it received them. For a client with sampling it writes the
//! members of its tools in another order.
//!
//! The tool `add` adds the tool that `name` names, or gives it another `description`, and a resource at `uri`. `folders` returns the roots of the client as the server
//! knows them. `say` sends a log line after its answer, and `signal`, which is not listed, a notification of a vendor. `touch` updates `file:///watched` after its answer.
//! `exit` ends the process. `client` returns how the client described itself,
//! and the notifications of vendors that it sent. A client with roots is asked for them at the start, and has the tool `of_client`
//! too. One with `experimental.prompts` has the prompt `own`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Time from receiving roots until they count.
const APPLIES: Duration = Duration::from_millis(50);

/// The state of one client.
#[derive(Debug, Default)]
pub struct Stateful {
    /// The client as it described itself.
    client: Value,
    has_roots: bool,
    is_turned: bool,
    folders: Option<String>,
    told: Option<(Instant, String)>,
    added: BTreeMap<String, Value>,
    uris: Vec<String>,
    is_subscribed: bool,
    asked: u64,
    /// The notifications of its client that MCP does not know.
    heard: Vec<Value>,
}

impl Stateful {
    /// Handles a message of its client. Returns the answer, and the notifications and requests after it.
    pub fn take(&mut self, message: &str) -> (Option<String>, Vec<Value>) {
        let message: Value = serde_json::from_str(message).expect("JSON");
        let (id, params) = (&message["id"], &message["params"]);
        let Some(method) = message["method"].as_str() else {
            let uri = message["result"]["roots"][0]["uri"].as_str();
            self.told = uri.map(|uri| (Instant::now() + APPLIES, uri.to_owned()));
            return (None, Vec::new());
        };
        if id.is_null() {
            if !method.starts_with("notifications/") {
                self.heard.push(json!({"method": method, "params": params}));
            }
            return (None, self.hear(method));
        }
        let (outcome, unasked) = self.answer(method, params);
        let (member, value) = outcome.map_or_else(
            |code| ("error", json!({"code": code, "message": "refused"})),
            |result| ("result", result),
        );
        let answer = json!({"jsonrpc": "2.0", "id": id, member: value}).to_string();
        let [one, other] = [
            r#"{"additionalProperties":false,"type":"object"}"#,
            r#"{"type":"object","additionalProperties":false}"#,
        ];
        (Some(if self.is_turned { answer.replace(one, other) } else { answer }), unasked)
    }

    fn hear(&mut self, notification: &str) -> Vec<Value> {
        let asks = ["notifications/initialized", "notifications/roots/list_changed"].contains(&notification);
        if !asks || !self.has_roots {
            return Vec::new();
        }
        self.asked += 1;
        vec![json!({"jsonrpc": "2.0", "id": format!("roots-{}", self.asked), "method": "roots/list"})]
    }

    fn answer(&mut self, method: &str, params: &Value) -> (Result<Value, i64>, Vec<Value>) {
        let nothing = |result| (Ok(result), Vec::new());
        match method {
            "initialize" => {
                self.client =
                    json!({"capabilities": params["capabilities"], "clientInfo": params["clientInfo"]});
                self.has_roots = params["capabilities"]["roots"].is_object();
                self.is_turned = params["capabilities"]["sampling"].is_object();
                let mut capabilities = json!({"tools": {"listChanged": true}, "logging": {}, "completions": {},
                    "resources": {"subscribe": true, "listChanged": true}});
                if params["capabilities"]["experimental"]["prompts"].is_object() {
                    capabilities["prompts"] = json!({});
                }
                nothing(json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "serverInfo": {"name": "stateful", "version": "1"}}))
            }
            "ping" | "logging/setLevel" => nothing(json!({})),
            "tools/list" => nothing(json!({ "tools": self.tools() })),
            "tools/call" => self.call(params),
            "resources/list" => {
                let uris = self.uris.iter().map(String::as_str).chain(["file:///watched"]);
                let resources: Vec<_> = uris.map(|uri| json!({"uri": uri, "name": "r"})).collect();
                nothing(json!({ "resources": resources }))
            }
            "resources/read" => nothing(json!({"contents": [{"uri": params["uri"], "text": "read"}]})),
            "resources/templates/list" => nothing(json!({"resourceTemplates": []})),
            "prompts/list" => nothing(json!({"prompts": [{"name": "own"}]})),
            "completion/complete" => nothing(json!({"completion": {"values": ["completed"]}})),
            "resources/subscribe" | "resources/unsubscribe" => {
                self.is_subscribed = method.ends_with("/subscribe");
                nothing(json!({}))
            }
            _ => (Err(-32601), Vec::new()),
        }
    }

    fn tools(&self) -> Vec<Value> {
        let own = if self.has_roots { &["of_client"][..] } else { &[] };
        let names = ["add", "folders", "say", "touch", "exit", "client"]
            .iter()
            .chain(own)
            .map(|name| (*name).to_owned());
        let tool = |name: String| {
            let only_reads = name == "folders";
            let mut tool = json!({"name": name, "inputSchema": {"type": "object", "additionalProperties": false}, "annotations": {"readOnlyHint": only_reads}});
            if let Some(description) = self.added.get(&name).filter(|description| description.is_string()) {
                tool["description"] = description.clone();
            }
            tool
        };
        let names: BTreeSet<String> = names.chain(self.added.keys().cloned()).collect();
        names.into_iter().map(tool).collect()
    }

    fn call(&mut self, params: &Value) -> (Result<Value, i64>, Vec<Value>) {
        let text = |text: &str| Ok(json!({"content": [{"type": "text", "text": text}]}));
        let told = |method: &str, params: Value| {
            vec![json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})]
        };
        match params["name"].as_str().expect("a name") {
            "add" => {
                let (name, uri) = (&params["arguments"]["name"], &params["arguments"]["uri"]);
                let name = name.as_str().expect("a name").to_owned();
                self.added.insert(name, params["arguments"]["description"].clone());
                let mut changes = told("tools/list_changed", json!({}));
                if let Some(uri) = uri.as_str() {
                    self.uris.push(uri.to_owned());
                    changes.extend(told("resources/list_changed", json!({})));
                }
                (text("added"), changes)
            }
            "folders" => {
                if let Some((_, folder)) = self.told.take_if(|(at, _)| *at <= Instant::now()) {
                    self.folders = Some(folder);
                }
                (text(self.folders.as_deref().unwrap_or("none")), Vec::new())
            }
            "client" => {
                let mut client = self.client.clone();
                if !self.heard.is_empty() {
                    client["heard"] = json!(self.heard);
                }
                (text(&client.to_string()), Vec::new())
            }
            "signal" => {
                let signal = json!({"jsonrpc": "2.0", "method": "com.example/signal", "params": {"n": 1}});
                (text("signaled"), vec![signal])
            }
            "say" => (text("said"), told("message", json!({"level": "info", "data": "a line"}))),
            "touch" if self.is_subscribed => {
                (text("touched"), told("resources/updated", json!({"uri": "file:///watched"})))
            }
            "exit" => std::process::exit(0),
            name => (text(name), Vec::new()),
        }
    }
}

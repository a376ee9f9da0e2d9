//! The client of the Rust SDK: the features of `fixtures/features.mjs`, in this process.
#![allow(deprecated)] // half of the legacy era is marked as deprecated

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProtocolVersion, ResourceUpdatedNotificationParam, ServerNotification,
};
use rmcp::service::{NotificationContext, RequestContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How long a notification may take.
const WAIT: Duration = Duration::from_secs(8);

/// The result of a feature; `Err` describes the failure.
type Outcome = Result<(), String>;

/// Notifications of the server.
#[derive(Debug, Default)]
struct Heard {
    progress: Mutex<Vec<String>>,
    lines: Mutex<Vec<String>>,
    changes: Mutex<Vec<String>>,
}

/// Records notifications and answers requests of the server.
#[derive(Debug, Clone)]
struct Answers {
    heard: Arc<Heard>,
    version: ProtocolVersion,
}

impl ClientHandler for Answers {
    fn get_info(&self) -> ClientConfig {
        let abilities = typed(json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}}}));
        ClientConfig::new(abilities, Implementation::new("client-rmcp", "1"))
            .with_protocol_version(self.version.clone())
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let content = json!({"type": "text", "text": "something"});
        Ok(typed(json!({"model": "fixed-model", "role": "assistant", "content": content})))
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(typed(json!({"roots": [{"uri": "file:///fixture", "name": "fixture"}]})))
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(typed(json!({"action": "accept", "content": {"name": "Ada"}})))
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        note(&self.heard.progress, format!("{}/{}", told.progress, told.total.unwrap_or_default()));
    }

    async fn on_logging_message(
        &self,
        line: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let line = serde_json::to_value(&line).expect("JSON");
        note(&self.heard.lines, format!("{}: {}", text(&line["level"]), text(&line["data"])));
    }

    async fn on_resource_updated(
        &self,
        updated: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        note(&self.heard.changes, updated.uri);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        note(&self.heard.changes, "tools".to_owned());
    }
}

/// Tries `features` over Streamable HTTP with the server at `url`, in this revision.
pub async fn outcome(url: &str, revision: &str, features: &[&str]) -> BTreeMap<String, String> {
    let version: ProtocolVersion = typed(json!(revision));
    let mode = if version.has_initialize() {
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Auto {
            preferred_versions: vec![version.clone()],
            legacy_version: Some(typed(json!("2025-11-25"))),
        }
    };
    let heard = Arc::new(Heard::default());
    let answers = Answers { heard: Arc::clone(&heard), version };
    let transport = StreamableHttpClientTransport::from_uri(url.to_owned());
    let connecting = tokio::time::timeout(WAIT, Box::pin(answers.serve_with_lifecycle(transport, mode)));
    let mut outcomes = BTreeMap::new();
    let client = match connecting.await.map_err(words).and_then(|connected| connected.map_err(words)) {
        Ok(client) => client,
        Err(error) => return BTreeMap::from([("connected".to_owned(), error)]),
    };
    let version = client.peer_info().expect("it is connected").protocol_version.to_string();
    let peer = Peer { modern: version.as_str() >= "2026", client, heard };
    outcomes.insert("connected".to_owned(), version);
    for feature in features {
        let outcome = tokio::time::timeout(3 * WAIT, Box::pin(peer.tries(feature))).await;
        let outcome = outcome.unwrap_or_else(|_| Err("it does not end".to_owned()));
        outcomes.insert((*feature).to_owned(), outcome.err().unwrap_or_else(|| "ok".to_owned()));
    }
    peer.client.cancel().await.expect("it ends");
    outcomes
}

struct Peer {
    client: RunningService<RoleClient, Answers>,
    heard: Arc<Heard>,
    modern: bool,
}

impl Peer {
    async fn tries(&self, feature: &str) -> Outcome {
        match feature {
            "tools" => self.tools().await,
            "resources" => self.resources().await,
            "missing" => self.missing().await,
            "prompts" => self.prompts().await,
            "completion" => self.completion().await,
            "progress" => self.progress().await,
            "cancel" => self.cancel().await,
            "log" => self.log().await,
            "elicitation" => same(&self.call("ask_elicitation", json!({})).await?, "accept Ada"),
            "sampling" => same(&self.call("ask_sampling", json!({})).await?, "fixed-model something"),
            "roots" => same(&self.call("ask_roots", json!({})).await?, "file:///fixture"),
            "list_changed" => self.list_changed().await,
            "updated" => self.updated().await,
            other => Err(format!("no such feature: {other}")),
        }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<String, String> {
        self.call_with(json!({"name": tool, "arguments": arguments})).await
    }

    async fn call_with(&self, params: Value) -> Result<String, String> {
        let params: CallToolRequestParams = typed(params);
        let result = self.client.call_tool(params).await.map_err(words)?;
        let result = serde_json::to_value(&result).expect("JSON");
        if result["isError"] == true {
            return Err(result.to_string());
        }
        Ok(text(&result["content"][0]["text"]))
    }

    async fn tools(&self) -> Outcome {
        let tools = self.client.list_all_tools().await.map_err(words)?;
        for name in ["echo", "slow", "touch"] {
            among(name, tools.iter().map(|tool| tool.name.as_ref()))?;
        }
        same(&self.call("echo", json!({"words": "héllo"})).await?, "héllo")
    }

    async fn resources(&self) -> Outcome {
        let resources = self.client.list_all_resources().await.map_err(words)?;
        for uri in ["test://text", "test://binary", "test://watched"] {
            among(uri, resources.iter().map(|resource| resource.uri.as_str()))?;
        }
        let templates = self.client.list_all_resource_templates().await.map_err(words)?;
        among("test://item/{id}", templates.iter().map(|template| template.uri_template.as_str()))?;
        same(&self.read("test://text", "text").await?, "some text")?;
        same(&self.read("test://binary", "blob").await?[..8], "iVBORw0K")?;
        same(&self.read("test://item/42", "text").await?, "item 42")
    }

    async fn read(&self, uri: &str, member: &str) -> Result<String, String> {
        let contents = self.client.read_resource(typed(json!({"uri": uri}))).await.map_err(words)?;
        let contents = serde_json::to_value(&contents).expect("JSON");
        Ok(text(&contents["contents"][0][member]))
    }

    async fn missing(&self) -> Outcome {
        let failed = self.client.read_resource(typed(json!({"uri": "test://nothing/here"}))).await;
        match failed {
            Err(rmcp::ServiceError::McpError(error)) if [-32002, -32602].contains(&error.code.0) => Ok(()),
            other => Err(format!("for what is missing: {other:?}")),
        }
    }

    async fn prompts(&self) -> Outcome {
        let prompts = self.client.list_all_prompts().await.map_err(words)?;
        for name in ["plain", "coloured"] {
            among(name, prompts.iter().map(|prompt| prompt.name.as_str()))?;
        }
        same(&self.prompt(json!({"name": "plain"})).await?, "plain words")?;
        same(&self.prompt(json!({"name": "coloured", "arguments": {"colour": "red"}})).await?, "in red")
    }

    async fn prompt(&self, params: Value) -> Result<String, String> {
        let prompt = self.client.get_prompt(typed(params)).await.map_err(words)?;
        let prompt = serde_json::to_value(&prompt).expect("JSON");
        Ok(text(&prompt["messages"][0]["content"]["text"]))
    }

    async fn completion(&self) -> Outcome {
        let found = self.client.complete_prompt_simple("coloured", "colour", "gr").await.map_err(words)?;
        same(&found.join(","), "green,grey")
    }

    async fn progress(&self) -> Outcome {
        self.heard.progress.lock().expect("no panic").clear();
        same(&self.call("slow", json!({"ms": 200, "key": unique()})).await?, "slept")?;
        let all = || self.heard.progress.lock().expect("no panic").join(",");
        until("all of the progress", async || all().matches('/').count() >= 3).await?;
        same(&all(), "0/100,50/100,100/100")
    }

    async fn cancel(&self) -> Outcome {
        self.heard.progress.lock().expect("no panic").clear();
        let key = unique();
        {
            let mut running = std::pin::pin!(self.call("slow", json!({"ms": 30000, "key": key})));
            let started =
                until("it begins", async || !self.heard.progress.lock().expect("no panic").is_empty());
            tokio::select! {
                started = started => started?,
                answer = &mut running => return Err(format!("an answer: {answer:?}")),
            }
        }
        until("the server hears that it was cancelled", async || {
            self.call("cancelled_count", json!({"key": key})).await.is_ok_and(|count| count == "1")
        })
        .await
    }

    async fn log(&self) -> Outcome {
        let mut params = json!({"name": "log", "arguments": {}});
        if self.modern {
            params["_meta"] = json!({"io.modelcontextprotocol/logLevel": "warning"});
        } else {
            self.client.set_level(typed(json!({"level": "warning"}))).await.map_err(words)?;
        }
        same(&self.call_with(params).await?, "logged")?;
        let all = || self.heard.lines.lock().expect("no panic").join(", ");
        until("two lines", async || all().matches(':').count() >= 2).await?;
        same(&all(), "warning: a warning line, error: a error line")
    }

    async fn list_changed(&self) -> Outcome {
        let added = format!("added_{}", unique());
        self.heard.changes.lock().expect("no panic").clear();
        let listed = async || {
            let tools = self.client.list_all_tools().await.unwrap_or_default();
            self.has_heard("tools") && tools.iter().any(|tool| tool.name == added)
        };
        let act = async {
            self.call("add_tool", json!({"name": added})).await?;
            until("the list that changed has the tool", listed).await
        };
        Box::pin(self.listening(json!({"toolsListChanged": true}), act)).await
    }

    async fn updated(&self) -> Outcome {
        let (watched, words) = ("test://watched", unique());
        self.heard.changes.lock().expect("no panic").clear();
        let act = async {
            self.call("touch", json!({"text": words})).await?;
            until("word of what is watched", async || self.has_heard(watched)).await?;
            same(&self.read(watched, "text").await?, &words)
        };
        Box::pin(self.listening(json!({"resourceSubscriptions": [watched]}), act)).await
    }

    /// Runs `act` while subscribed to `filter`.
    async fn listening(&self, filter: Value, act: impl Future<Output = Outcome>) -> Outcome {
        if self.modern {
            let mut subscription = self.client.listen(typed(filter)).await.map_err(words)?;
            let mut act = std::pin::pin!(act);
            return loop {
                tokio::select! {
                    said = subscription.next() => note(&self.heard.changes, change(said.map_err(words)?)?),
                    outcome = &mut act => break outcome,
                }
            };
        }
        let watched: Vec<String> =
            typed(filter.get("resourceSubscriptions").cloned().unwrap_or_else(|| json!([])));
        for uri in &watched {
            self.client.subscribe(typed(json!({"uri": uri}))).await.map_err(words)?;
        }
        let outcome = act.await;
        for uri in &watched {
            self.client.unsubscribe(typed(json!({"uri": uri}))).await.map_err(words)?;
        }
        outcome
    }

    fn has_heard(&self, change: &str) -> bool {
        self.heard.changes.lock().expect("no panic").iter().any(|heard| heard == change)
    }
}

/// Returns the change that a notification of a subscription reports.
fn change(said: Option<ServerNotification>) -> Result<String, String> {
    match said {
        Some(ServerNotification::ToolListChangedNotification(_)) => Ok("tools".to_owned()),
        Some(ServerNotification::ResourceUpdatedNotification(updated)) => Ok(updated.params.uri),
        other => Err(format!("the subscription says {other:?}")),
    }
}

fn note(list: &Mutex<Vec<String>>, what: String) {
    list.lock().expect("no panic").push(what);
}

/// Builds a value of the SDK from JSON, because most of its types have no constructor.
fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("it is of that form")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn words(error: impl Display) -> String {
    error.to_string()
}

fn unique() -> String {
    uuid::Uuid::new_v4().simple().to_string()[..8].to_owned()
}

fn same(found: &str, expected: &str) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("{found:?}, not {expected:?}")) }
}

fn among<'a>(expected: &str, mut names: impl Iterator<Item = &'a str> + Clone) -> Outcome {
    let all: Vec<&str> = names.clone().collect();
    if names.any(|name| name == expected) { Ok(()) } else { Err(format!("no {expected} in {all:?}")) }
}

async fn until(what: &str, mut attempt: impl AsyncFnMut() -> bool) -> Outcome {
    let asking = async {
        while !attempt().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(WAIT, asking).await.map_err(|_| format!("in vain: {what}"))
}

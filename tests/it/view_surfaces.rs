//! Every way into the gateway with random views: what a list has can be used, suggested and notified of, and nothing else.
//!
//! Each MCP method and each route of the REST API is a row of a table here. One without a row fails.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use axum::routing::post;
use futures_util::{StreamExt as _, stream};
use http::Method;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use testkit::served::Served;
use tokio::sync::watch;

use crate::revoked::bearer;
use crate::support::client::Session;
use crate::support::{Client, Gateway, Registry, Running, api_keys, eventually};

/// The number of views, each with a key of its own.
const VIEWS: usize = 12;
/// The items of each kind of one server.
const ITEMS: usize = 6;
const SERVERS: [&str; 3] = ["s0", "s1", "s2"];
const OPERATOR: &str = "swy_op_0123456789abcdef0123456789abcdef0123456789abcdef";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Tool,
    Prompt,
    Resource,
    Template,
    Skill,
}

const KINDS: [Kind; 5] = [Kind::Tool, Kind::Prompt, Kind::Resource, Kind::Template, Kind::Skill];

/// An item of a server. An answer that has the word of an item is about this item alone.
#[derive(Debug, Clone)]
struct Item {
    server: &'static str,
    kind: Kind,
    word: String,
    is_read_only: bool,
}

impl Item {
    /// Its name or URI, which rules name.
    fn name(&self) -> String {
        let word = &self.word;
        match self.kind {
            Kind::Tool | Kind::Prompt => word.clone(),
            Kind::Resource => format!("doc://{word}/a"),
            Kind::Template => format!("doc://{word}/{{id}}"),
            Kind::Skill => format!("skill://{word}/SKILL.md"),
        }
    }

    /// The URI that a client reads.
    fn uri(&self) -> String {
        self.name().replace("{id}", "1")
    }

    fn definition(&self) -> Value {
        let (word, name) = (&self.word, self.name());
        match self.kind {
            Kind::Tool => json!({"name": name, "description": "A tool.", "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": self.is_read_only}}),
            Kind::Prompt => json!({"name": name, "arguments": [{"name": "a"}]}),
            Kind::Resource => json!({"uri": name, "name": "a document"}),
            Kind::Template => json!({"uriTemplate": name, "name": "a template"}),
            Kind::Skill => json!({"frontmatter": {"name": word, "description": "A skill."}, "uri": name,
                "resources": [{"uri": name, "digest": format!("sha256:{}", "0a".repeat(32)), "size": 7}]}),
        }
    }
}

/// One server; it records the words of the items that requests are about.
#[derive(Clone)]
struct State {
    items: Arc<Mutex<Vec<Item>>>,
    reached: Arc<Mutex<BTreeSet<String>>>,
    /// Each change says on all streams that their resources changed.
    updates: Arc<watch::Sender<usize>>,
}

impl State {
    fn list(&self, kind: Kind) -> Vec<Value> {
        let items = self.items.lock().expect("no panic holds it");
        items.iter().filter(|item| item.kind == kind).map(Item::definition).collect()
    }

    fn answer(&self, body: &Bytes) -> Response {
        let request: Value = serde_json::from_slice(body).expect("a message");
        let (id, params) = (&request["id"], &request["params"]);
        let method = request["method"].as_str().unwrap_or_default();
        if !matches!(method, "server/discover" | "subscriptions/listen") && !method.ends_with("/list") {
            let items = self.items.lock().expect("no panic holds it");
            let text = params.to_string();
            let words: Vec<String> =
                items.iter().map(|item| item.word.clone()).filter(|word| text.contains(word)).collect();
            if words.is_empty() {
                let code = if method.starts_with("resources/") { -32002 } else { -32602 };
                return message(id, "error", &json!({"code": code, "message": "not mine"}));
            }
            self.reached.lock().expect("no panic holds it").extend(words);
        }
        let list = |member: &str, kind| json!({member: self.list(kind), "ttlMs": 0, "cacheScope": "public"});
        let mut result = match method {
            "server/discover" => {
                json!({"supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "public",
                "capabilities": {"tools": {"listChanged": true}, "prompts": {"listChanged": true}, "completions": {},
                    "resources": {"subscribe": true, "listChanged": true},
                    "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": true}}}})
            }
            "tools/list" => list("tools", Kind::Tool),
            "prompts/list" => list("prompts", Kind::Prompt),
            "resources/list" => list("resources", Kind::Resource),
            "resources/templates/list" => list("resourceTemplates", Kind::Template),
            "skills/list" => list("skills", Kind::Skill),
            "skills/get" => json!({"skill": self.list(Kind::Skill)[0], "ttlMs": 0, "cacheScope": "private"}),
            "tools/call" => json!({"content": []}),
            "prompts/get" => json!({"messages": []}),
            "resources/read" => json!({"contents": [], "ttlMs": 0, "cacheScope": "private"}),
            "resources/directory/read" => json!({"resources": []}),
            "completion/complete" => json!({"completion": {"values": []}}),
            "subscriptions/listen" => return self.listening(id, &params["notifications"]),
            _ => json!({}),
        };
        result["resultType"] = "complete".into();
        message(id, "result", &result)
    }

    /// A stream that acknowledges what it has of that, and stays open.
    fn listening(&self, id: &Value, notifications: &Value) -> Response {
        let own: Vec<Value> = self.list(Kind::Resource).iter().map(|item| item["uri"].clone()).collect();
        let mut honoured = notifications.clone();
        if let Some(uris) = honoured["resourceSubscriptions"].as_array_mut() {
            uris.retain(|uri| own.contains(uri));
        }
        let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
        let first = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": meta.clone(), "notifications": honoured}});
        let told = honoured["resourceSubscriptions"].clone();
        let of_update = move |uri: &Value| {
            let params = json!({"_meta": meta, "uri": uri});
            let message =
                json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params});
            format!("data: {message}\n\n")
        };
        let updated = stream::unfold(self.updates.subscribe(), move |mut updates| {
            let events = told.as_array().into_iter().flatten().map(&of_update).collect::<String>();
            async move { updates.changed().await.ok().map(|()| (events, updates)) }
        });
        let events = stream::iter([format!("data: {first}\n\n")]).chain(updated);
        let body = Body::from_stream(events.map(Ok::<_, std::io::Error>));
        Response::builder().header("content-type", "text/event-stream").body(body).expect("an answer")
    }
}

fn message(id: &Value, member: &str, value: &Value) -> Response {
    let body = Body::from(json!({"jsonrpc": "2.0", "id": id, member: value}).to_string());
    Response::builder().header("content-type", "application/json").body(body).expect("an answer")
}

/// The rules of a view, and what they mean according to their documentation.
#[derive(Debug)]
struct Rules {
    servers: Option<Vec<&'static str>>,
    allow: Option<Vec<String>>,
    deny: Vec<String>,
    is_read_only: bool,
}

impl Rules {
    fn random(items: &[Item], random: &mut StdRng) -> Self {
        let mut rules = |often: f64| -> Vec<String> {
            let of = |item: &Item, random: &mut StdRng| {
                let server = if random.random_bool(0.8) { item.server } else { "*" };
                let name = item.uri();
                // A rule for one item, or for all whose words begin with the same letter.
                let at =
                    name.find(&item.word).expect("its word") + if random.random_bool(0.7) { 8 } else { 1 };
                format!("{server}/{}*", &name[..at])
            };
            let some: Vec<_> = items.iter().filter(|_| random.random_bool(often)).collect();
            let mut rules: Vec<String> = some.into_iter().map(|item| of(item, random)).collect();
            rules.extend(random.random_bool(often).then(|| "s0/*".to_owned()));
            rules
        };
        let (allow, deny) = (rules(0.25), rules(0.08));
        let servers = SERVERS.into_iter().filter(|_| random.random_bool(0.7)).collect();
        let is_read_only = random.random_bool(0.2);
        let (servers, allow) = match random.random_range(0..3) {
            0 => (Some(servers), None),
            1 => (None, Some(allow)),
            _ => (Some(servers), Some(allow)),
        };
        Self { servers, allow, deny, is_read_only }
    }

    fn has(&self, item: &Item) -> bool {
        let matches = |rule: &String| {
            let (server, name) = rule.split_once('/').expect("a rule");
            let begin = name.strip_suffix('*').expect("a pattern");
            (server == "*" || server == item.server) && item.uri().starts_with(begin)
        };
        self.servers.as_ref().is_none_or(|servers| servers.contains(&item.server))
            && self.allow.as_ref().is_none_or(|allow| allow.iter().any(matches))
            && !self.deny.iter().any(matches)
            && (!self.is_read_only || item.kind != Kind::Tool || item.is_read_only)
    }

    fn yaml(&self) -> String {
        let mut all = json!({"deny": self.deny, "read_only": self.is_read_only});
        if let Some(servers) = &self.servers {
            all["servers"] = json!(servers);
        }
        if let Some(allow) = &self.allow {
            all["allow"] = json!(allow);
        }
        all.to_string()
    }
}

/// The gateway with its servers, views and keys.
struct Setup {
    gateway: Running,
    servers: Vec<(State, Served)>,
    items: Vec<Item>,
    views: Vec<(String, Rules)>,
}

impl Setup {
    async fn start(random: &mut StdRng) -> Self {
        let mut items = Vec::new();
        for server in SERVERS {
            for kind in KINDS {
                let count = if kind == Kind::Skill { 1 } else { ITEMS };
                for _ in 0..count {
                    let first = ["a", "b", "c", "d"][random.random_range(0..4)];
                    let word = format!("{first}{:07x}", random.random_range(0..0x1000_0000_u32));
                    items.push(Item { server, kind, word, is_read_only: random.random() });
                }
            }
        }
        let serve = |name| {
            let of = items.iter().filter(|item: &&Item| item.server == name).cloned().collect();
            let state =
                State { items: Arc::new(Mutex::new(of)), reached: Arc::default(), updates: Arc::default() };
            let answering = state.clone();
            let answer = move |body: Bytes| std::future::ready(answering.answer(&body));
            (state, Served::start(Router::new().route("/mcp", post(answer))))
        };
        let servers: Vec<(State, Served)> = SERVERS.into_iter().map(serve).collect();
        let views: Vec<(String, Rules)> =
            (0..VIEWS).map(|number| (format!("v{number}"), Rules::random(&items, random))).collect();
        let registry = registry(&servers, &views);
        let gateway = Gateway::of(&registry).start().await;
        for item in items.iter().filter(|item| item.kind == Kind::Tool) {
            gateway.offers_to(&item.word, &bearer(OPERATOR)).await;
        }
        Self { gateway, servers, items, views }
    }

    fn client(&self, view: &str) -> Client {
        self.gateway.mcp().with_header("authorization", &bearer(&key(view)))
    }

    /// The words of the items that `text` has.
    fn words(&self, text: &str) -> BTreeSet<&str> {
        let words = self.items.iter().map(|item| item.word.as_str());
        words.filter(|word| text.contains(word)).collect()
    }

    /// The words of what the rules select.
    fn selected(&self, rules: &Rules, is_of: impl Fn(&Item) -> bool) -> BTreeSet<&str> {
        let items = self.items.iter().filter(|item| rules.has(item) && is_of(item));
        items.map(|item| item.word.as_str()).collect()
    }

    /// Whether a request for `word` reached a server since the last time.
    fn has_reached(&self, word: &str) -> bool {
        let mut all = BTreeSet::new();
        for (state, _) in &self.servers {
            all.append(&mut state.reached.lock().expect("no panic holds it"));
        }
        assert!(all.iter().all(|one| one == word), "{word}: {all:?}");
        !all.is_empty()
    }
}

/// The configuration file: the servers, the views, and a key for each view.
fn registry(servers: &[(State, Served)], views: &[(String, Rules)]) -> Registry {
    let of_view = |(view, _): &(String, Rules)| (key(view), format!("role: caller, view: {view}"));
    let of_views: Vec<(String, String)> = views.iter().map(of_view).collect();
    let mut keys = vec![(OPERATOR, "role: superuser")];
    keys.extend(of_views.iter().map(|(key, more)| (key.as_str(), more.as_str())));
    let lines: Vec<String> =
        views.iter().map(|(name, rules)| format!("\n  {name}: {}", rules.yaml())).collect();
    let mut registry = Registry::new();
    for (name, (_, served)) in SERVERS.iter().zip(servers) {
        registry = registry.http(name, &format!("{}/mcp", served.url()));
    }
    let registry = registry.setting(&format!("views:{}", lines.concat()));
    registry.setting(&format!("server: {{{}}}", api_keys(&keys)))
}

fn key(view: &str) -> String {
    format!("swy_{view}_{}", "0123456789abcdef".repeat(3))
}

/// The duty of a method or route towards the client of a view.
#[derive(Debug, Clone, Copy)]
enum Surface {
    /// It answers with all that the view has of these kinds, and with nothing else.
    Lists(&'static [Kind]),
    /// It serves an item of these kinds exactly if the view has it.
    Serves(&'static [Kind]),
    /// It names nothing that the view does not have.
    Hides,
    /// It needs another role.
    Refuses,
}

use Surface::{Hides, Lists, Refuses, Serves};

const TOOLS: Surface = Serves(&[Kind::Tool]);
const READABLE: Surface = Serves(&[Kind::Resource, Kind::Template]);

/// The MCP methods that clients may send.
const METHODS: [(&str, Surface); 23] = [
    ("initialize", Hides),
    ("ping", Hides),
    ("server/discover", Hides),
    ("tools/list", Lists(&[Kind::Tool])),
    ("tools/call", TOOLS),
    ("prompts/list", Lists(&[Kind::Prompt])),
    ("prompts/get", Serves(&[Kind::Prompt])),
    ("resources/list", Lists(&[Kind::Resource])),
    ("resources/templates/list", Lists(&[Kind::Template])),
    ("resources/read", READABLE),
    ("skills/list", Lists(&[Kind::Skill])),
    ("skills/get", Serves(&[Kind::Skill])),
    ("resources/directory/read", Hides),
    ("completion/complete", Serves(&[Kind::Prompt, Kind::Template])),
    ("subscriptions/listen", Serves(&[Kind::Resource])),
    ("resources/subscribe", Serves(&[Kind::Resource])),
    ("resources/unsubscribe", Hides),
    ("logging/setLevel", Hides),
    ("tasks/get", Hides),
    ("tasks/result", Hides),
    ("tasks/update", Hides),
    ("tasks/cancel", Hides),
    ("tasks/list", Hides),
];

/// The routes of the REST API.
const ROUTES: [(&str, &str, Surface); 51] = [
    ("get", "/", Hides),
    ("get", "/health", Hides),
    ("get", "/health/live", Hides),
    ("get", "/health/ready", Hides),
    ("get", "/metrics", Refuses),
    ("get", "/api/v1/mcp/servers", Hides),
    ("get", "/api/v1/mcp/servers/{name}", Hides),
    ("get", "/api/v1/mcp/servers/{name}/tools", Lists(&[Kind::Tool])),
    ("get", "/api/v1/mcp/tools", Lists(&[Kind::Tool])),
    ("get", "/api/v1/mcp/tools/{name}", TOOLS),
    ("get", "/api/v1/mcp/resources", Lists(&[Kind::Resource])),
    ("get", "/api/v1/mcp/resources/templates", Lists(&[Kind::Template])),
    ("get", "/api/v1/mcp/prompts", Lists(&[Kind::Prompt])),
    ("post", "/api/v1/mcp/resources/read", READABLE),
    ("post", "/api/v1/mcp/prompts/{name}", Serves(&[Kind::Prompt])),
    ("post", "/api/v1/mcp/call", TOOLS),
    ("post", "/api/v1/mcp/call/{call}/answer", Hides),
    ("get", "/api/v1/mcp/health", Hides),
    ("get", "/api/v1/mcp/circuit-breakers", Hides),
    ("get", "/api/v1/mcp/events", Hides),
    ("get", "/api/v1/mcp/history", Hides),
    ("get", "/api/v1/mcp/logins", Hides),
    ("get", "/api/v1/mcp/servers/{name}/login", Hides),
    ("post", "/api/v1/mcp/servers/{name}/login", Hides),
    ("delete", "/api/v1/mcp/servers/{name}/login", Hides),
    ("post", "/api/v1/mcp/circuit-breakers/{name}/reset", Refuses),
    ("post", "/api/v1/mcp/servers/{name}/reconnect", Refuses),
    ("post", "/api/v1/mcp/servers/{name}/enable", Refuses),
    ("post", "/api/v1/mcp/servers/{name}/disable", Refuses),
    ("post", "/api/v1/mcp/servers/{name}/forget", Refuses),
    ("post", "/api/v1/mcp/servers/{name}/tools/approve", Refuses),
    ("put", "/api/v1/mcp/servers/{name}", Refuses),
    ("patch", "/api/v1/mcp/servers/{name}", Refuses),
    ("delete", "/api/v1/mcp/servers/{name}", Refuses),
    ("get", "/api/v1/mcp/servers/{name}/stderr", Refuses),
    ("post", "/api/v1/mcp/reload", Refuses),
    ("get", "/api/v1/mcp/configuration", Refuses),
    ("get", "/api/v1/mcp/why", Refuses),
    ("get", "/api/v1/mcp/views", Refuses),
    ("get", "/api/v1/mcp/views/{view}", Refuses),
    ("get", "/api/v1/mcp/secrets", Hides),
    ("put", "/api/v1/mcp/secrets/{secret}", Hides),
    ("delete", "/api/v1/mcp/secrets/{secret}", Hides),
    ("get", "/api/v1/mcp/keys", Refuses),
    ("put", "/api/v1/mcp/keys/{key}", Refuses),
    ("delete", "/api/v1/mcp/keys/{key}", Refuses),
    ("get", "/api/v1/mcp/grants", Hides),
    ("delete", "/api/v1/mcp/grants", Hides),
    ("delete", "/api/v1/mcp/grants/{grant}", Hides),
    ("get", "/api/v1/mcp/clients", Refuses),
    ("delete", "/api/v1/mcp/clients", Refuses),
];

/// The parameters of a request for `item`.
fn params(method: &str, item: &Item) -> Value {
    match method {
        "tools/call" => json!({"name": item.word, "arguments": {}}),
        "prompts/get" => json!({"name": item.word}),
        "completion/complete" => {
            let of = match item.kind {
                Kind::Prompt => json!({"type": "ref/prompt", "name": item.word}),
                _ => json!({"type": "ref/resource", "uri": item.name()}),
            };
            json!({"ref": of, "argument": {"name": "a", "value": ""}})
        }
        "logging/setLevel" => json!({"level": "error"}),
        "subscriptions/listen" => json!({"notifications": {"resourceSubscriptions": [item.uri()]}}),
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"}}),
        method if method.starts_with("tasks/") => json!({"taskId": item.word}),
        _ => json!({"uri": item.uri()}),
    }
}

/// A client of one view, in one era.
enum Asker {
    Modern(Client),
    Legacy(Session),
}

impl Asker {
    fn speaks(&self, method: &str) -> bool {
        let is_legacy = matches!(
            method,
            "initialize"
                | "ping"
                | "resources/subscribe"
                | "resources/unsubscribe"
                | "logging/setLevel"
                | "tasks/list"
                | "tasks/result"
        );
        let is_modern = matches!(
            method,
            "server/discover"
                | "subscriptions/listen"
                | "tasks/update"
                | "skills/list"
                | "skills/get"
                | "resources/directory/read"
        );
        match self {
            Self::Modern(_) => !is_legacy,
            Self::Legacy(_) => !is_modern,
        }
    }

    /// The text of the response.
    async fn ask(&self, method: &str, params: &Value) -> String {
        match self {
            Self::Modern(client) if method == "subscriptions/listen" => {
                let mut stream = client.modern_stream(method, params).await;
                stream.next().await.map(|first| first.to_string()).unwrap_or_default()
            }
            Self::Modern(client) => client.modern(method, params.clone()).await.response_text(),
            Self::Legacy(session) => session.request(method, params.clone()).await.response_text(),
        }
    }
}

/// Whether the text of a response is a result. The first message of a stream names what is subscribed to.
fn is_served(method: &str, text: &str, item: &Item) -> bool {
    match method {
        "subscriptions/listen" => text.contains(&item.word),
        _ => text.contains("\"result\":"),
    }
}

fn without(text: &str, item: &Item) -> String {
    text.replace(&item.word, "")
}

#[tokio::test]
async fn each_method_has_what_the_view_has_and_nothing_else() {
    let table = include_str!("../../crates/gateway/src/lib.rs");
    let rows = table.lines().filter(|line| line.starts_with("    (method::")).count();
    assert_eq!(METHODS.len(), rows, "a method needs its row here");
    let mut random = StdRng::seed_from_u64(37);
    let setup = Setup::start(&mut random).await;
    let mut cases = 0;
    for (view, rules) in &setup.views {
        let all = setup.selected(rules, |_| true);
        for address in ["/mcp".to_owned(), format!("/mcp/{view}")] {
            let client = setup.client(view).to(&setup.gateway.url(&address));
            let askers = [Asker::Legacy(client.legacy().await), Asker::Modern(client)];
            for (method, surface) in METHODS {
                for asker in askers.iter().filter(|asker| asker.speaks(method)) {
                    let about = |item: &Item| format!("{method} of {item:?} at {address}: {rules:?}");
                    match surface {
                        Lists(kinds) => {
                            let text = asker.ask(method, &json!({})).await;
                            let expected = setup.selected(rules, |item| kinds.contains(&item.kind));
                            assert_eq!(setup.words(&text), expected, "{method} at {address}: {rules:?}");
                            cases += setup.items.len();
                        }
                        Serves(kinds) => {
                            for item in setup.items.iter().filter(|item| kinds.contains(&item.kind)) {
                                let text = asker.ask(method, &params(method, item)).await;
                                let is_served = is_served(method, &text, item);
                                let is_reached = setup.has_reached(&item.word);
                                assert_eq!(is_served, rules.has(item), "{}: {text}", about(item));
                                assert!(!is_reached || is_served, "{}: {text}", about(item));
                                let others = without(&text, item);
                                assert!(setup.words(&others).is_subset(&all), "{}: {text}", about(item));
                                cases += 1;
                            }
                        }
                        Hides => {
                            let is_uri = |item: &&Item| !matches!(item.kind, Kind::Tool | Kind::Prompt);
                            for item in setup.items.iter().filter(is_uri).step_by(ITEMS) {
                                let text = asker.ask(method, &params(method, item)).await;
                                let others = without(&text, item);
                                assert!(setup.words(&others).is_subset(&all), "{}: {text}", about(item));
                                assert!(rules.has(item) || !setup.has_reached(&item.word), "{}", about(item));
                                setup.has_reached(&item.word);
                                cases += 1;
                            }
                        }
                        Refuses => unreachable!("no method does"),
                    }
                }
            }
        }
    }
    eprintln!("{cases} cases");
    assert!(cases > 10_000, "{cases}");
}

#[tokio::test]
async fn each_route_has_what_the_view_has_and_nothing_else() {
    let mut random = StdRng::seed_from_u64(73);
    let setup = Setup::start(&mut random).await;
    let document =
        setup.client("op").to(&setup.gateway.url("/openapi.json")).bare(Method::GET, &[]).await.json();
    let of_path = |(path, methods): (&String, &Value)| {
        let names = methods.as_object().expect("methods").keys();
        names.filter(|name| *name != "parameters").map(|name| format!("{name} {path}")).collect::<Vec<_>>()
    };
    let described: BTreeSet<String> =
        document["paths"].as_object().expect("paths").iter().flat_map(of_path).collect();
    let rows: BTreeSet<String> = ROUTES.iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    assert_eq!(rows, described, "a route needs its row here");

    let mut cases = 0;
    for (view, rules) in &setup.views {
        let all = setup.selected(rules, |_| true);
        let ask = async |method: &str, path: &str, item: &Item, is_stream: bool| {
            let name = if path.contains("/tools/{name}") || path.contains("/prompts/{name}") {
                &*item.word
            } else {
                item.server
            };
            let path = path
                .replace("{name}", name)
                .replace("{key}", "v0")
                .replace("{view}", "v0")
                .replace("{secret}", &item.word)
                .replace("{grant}", &item.word)
                .replace("{call}", &item.word);
            let query = match &*path {
                "/api/v1/mcp/events" => "?follow=false",
                "/api/v1/mcp/why" => "?tool=a",
                _ => "",
            };
            let client = setup.client(view).to(&setup.gateway.url(&format!("{path}{query}")));
            let body = match &*path {
                "/api/v1/mcp/call" => json!({"tool": item.word}),
                "/api/v1/mcp/resources/read" => json!({"uri": item.uri()}),
                _ if path.ends_with("/answer") => json!({"id": 1, "result": {}}),
                _ => json!({}),
            };
            let headers: &[_] = if is_stream { &[("accept", "text/event-stream")] } else { &[] };
            let verb: Method = method.to_uppercase().parse().expect("a method");
            match verb {
                Method::POST => client.post(&body.to_string(), headers).await,
                _ => client.bare(verb, headers).await,
            }
        };
        for (method, path, surface) in ROUTES {
            let first = &setup.items[0];
            match surface {
                Refuses => {
                    let answer = ask(method, path, first, false).await;
                    assert_eq!(answer.status, 403, "{method} {path}: {}", answer.body);
                    assert!(setup.words(&answer.body).is_empty(), "{method} {path}: {}", answer.body);
                    cases += 1;
                }
                Lists(kinds) => {
                    // The list of one server, or that of all.
                    let is_of_server = path.contains("{name}");
                    for server in SERVERS {
                        let of = setup.items.iter().find(|item| item.server == server).expect("an item");
                        let answer = ask(method, path, of, false).await;
                        let is_of = |item: &Item| {
                            kinds.contains(&item.kind) && (!is_of_server || item.server == server)
                        };
                        let expected = setup.selected(rules, is_of);
                        assert_eq!(setup.words(&answer.body), expected, "{path} {server}: {rules:?}");
                        cases += setup.items.len();
                    }
                }
                Serves(kinds) => {
                    for item in setup.items.iter().filter(|item| kinds.contains(&item.kind)) {
                        for is_stream in [false, true] {
                            let answer = ask(method, path, item, is_stream).await;
                            let is_reached = setup.has_reached(&item.word);
                            let about = format!("{method} {path} {item:?} {rules:?}: {}", answer.body);
                            let is_served = answer.status == 200 && !answer.body.contains("not_found");
                            assert_eq!(is_served, rules.has(item), "{about}");
                            assert!(!is_reached || is_served, "{about}");
                            assert!(setup.words(&without(&answer.body, item)).is_subset(&all), "{about}");
                            cases += 1;
                        }
                    }
                }
                Hides => {
                    for item in setup.items.iter().step_by(ITEMS) {
                        let answer = ask(method, path, item, false).await;
                        let about = format!("{method} {path} {item:?} {rules:?}: {}", answer.body);
                        assert!(setup.words(&without(&answer.body, item)).is_subset(&all), "{about}");
                        cases += 1;
                    }
                }
            }
        }
    }
    eprintln!("{cases} cases");
    assert!(cases > 10_000, "{cases}");
}

#[tokio::test]
async fn each_visible_tool_is_suggested_and_no_other() {
    let mut random = StdRng::seed_from_u64(137);
    let setup = Setup::start(&mut random).await;
    for (view, rules) in &setup.views {
        let client = setup.client(view);
        for item in setup.items.iter().filter(|item| item.kind == Kind::Tool) {
            let misspelled = format!("{}_", item.word);
            let text = client.call(&misspelled, json!({})).await.response_text();
            let suggested = text.replace(&misspelled, "").contains(&item.word);
            assert_eq!(suggested, rules.has(item), "{item:?} {rules:?}: {text}");
        }
    }
}

#[tokio::test]
async fn only_views_that_have_a_changed_item_are_notified() {
    let mut random = StdRng::seed_from_u64(173);
    let setup = Setup::start(&mut random).await;
    let mut streams = Vec::new();
    for (view, _) in &setup.views {
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        let mut stream = setup.client(view).modern_stream("subscriptions/listen", &wanted).await;
        stream.next().await.expect("an acknowledgement");
        streams.push(stream);
    }
    // One tool of each server goes. The gateway reads the lists again.
    let mut gone = Vec::new();
    for (state, _) in &setup.servers {
        let mut items = state.items.lock().expect("no panic holds it");
        let at = items.iter().position(|item| item.kind == Kind::Tool).expect("a tool");
        gone.push(items.remove(at));
    }
    let operator = setup.gateway.mcp().with_header("authorization", &bearer(OPERATOR));
    for server in SERVERS {
        let url = setup.gateway.url(&format!("/api/v1/mcp/servers/{server}/reconnect"));
        assert_eq!(operator.to(&url).post("", &[]).await.status, 200);
    }
    eventually("the tools are gone", async || {
        let listed = operator.modern("tools/list", json!({})).await.body;
        gone.iter().all(|item| !listed.contains(&item.word)).then_some(())
    })
    .await;
    for ((view, rules), stream) in setup.views.iter().zip(&mut streams) {
        let is_concerned = gone.iter().any(|item| rules.has(item));
        let wait = if is_concerned { Duration::from_secs(10) } else { Duration::from_millis(100) };
        let heard = tokio::time::timeout(wait, stream.next()).await;
        assert_eq!(heard.is_ok(), is_concerned, "{view} {rules:?}: {heard:?}");
    }
}

#[tokio::test]
async fn stream_of_a_resource_that_a_reload_hides_ends() {
    let mut random = StdRng::seed_from_u64(211);
    let mut setup = Setup::start(&mut random).await;
    let is_resource = |item: &&Item| item.kind == Kind::Resource;
    let found = setup.views.iter().enumerate().find_map(|(at, (_, rules))| {
        let mut seen = setup.items.iter().filter(is_resource).filter(|item| rules.has(item));
        Some((at, seen.next()?.clone(), seen.next()?.clone()))
    });
    let (at, hidden, kept) = found.expect("a view with two resources");
    let client = setup.client(&setup.views[at].0);
    let wanted = json!({"notifications": {"resourceSubscriptions": [hidden.uri(), kept.uri()]}});
    let mut stream = client.modern_stream("subscriptions/listen", &wanted).await;
    let first = stream.next().await.expect("an acknowledgement").to_string();
    assert!(first.contains(&hidden.word) && first.contains(&kept.word), "{first}");
    let update =
        || setup.servers.iter().for_each(|(state, _)| state.updates.send_modify(|count| *count += 1));
    let mut heard = BTreeSet::new();
    eventually("both are heard of", async || {
        update();
        let update = tokio::time::timeout(Duration::from_millis(200), stream.next()).await.ok()??;
        heard.extend(update["params"]["uri"].as_str().map(str::to_owned));
        (heard.len() == 2).then_some(())
    })
    .await;

    setup.views[at].1.deny.push(format!("{}/{}*", hidden.server, hidden.uri()));
    setup.gateway.rewrite(&registry(&setup.servers, &setup.views).yaml());
    let operator = setup.gateway.mcp().with_header("authorization", &bearer(OPERATOR));
    let reload = setup.gateway.url("/api/v1/mcp/reload");
    let reloaded = operator.to(&reload).post("", &[]).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.body);
    // Updates that were on their way may still arrive; the others arrive after those.
    tokio::time::sleep(Duration::from_secs(1)).await;
    while tokio::time::timeout(Duration::from_millis(100), stream.next()).await.is_ok() {}
    for _ in 0..5 {
        setup.servers.iter().for_each(|(state, _)| state.updates.send_modify(|count| *count += 1));
        let update = stream.next().await.expect("an update of the other resource");
        assert_eq!(update["params"]["uri"], kept.uri(), "{update}");
    }
}

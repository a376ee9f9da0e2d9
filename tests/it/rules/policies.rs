//! Tests of visible and callable tools with random policies: roles, allowed tools of servers, names,
//! endpoints, tools that come later, and arguments that a view fixes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auth::{Principal, Role};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gateway::manager::config::ToolNames;
use gateway::manager::{self, Manager, Scope, View};
use gateway::{Caller, Gateway};
use json::Raw;
use protocol::lifecycle::Peer;
use protocol::message::RequestId;
use protocol::{Era, Reply, Request, Version};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use runtime::shutdown::Shutdown;
use serde_json::{Value, json};
use upstream::connection::RequestFuture;
use upstream::{Call, Connection, Connector, Dialect, EventSender, Events, ResponseBody, config};

/// A tool whose call panics while it is sent.
pub const BROKEN: &str = "broken-on-purpose";

/// The tools that ran, each as the server and the name there.
pub type Ran = Arc<Mutex<BTreeSet<(String, String)>>>;

/// A server with some tools, which records those that ran.
struct Recording {
    name: String,
    tools: Vec<String>,
    /// Whether it lists the tools that come later.
    is_whole: AtomicBool,
    is_later: fn(&str) -> bool,
    peer: Peer,
    ran: Ran,
}

impl Connection for Recording {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn request<'a>(&'a self, call: &'a Call, _: &'a EventSender) -> RequestFuture<'a> {
        let name = || call.params.as_ref().and_then(|params| params.get_as::<String>("name"));
        let reply = match call.method.as_str() {
            "tools/list" => {
                let schema = json!({"type": "object", "properties": {"who": {"type": "string"}}});
                let tool = |name: &String| json!({"name": name, "inputSchema": schema});
                // The first list, and then all.
                let is_whole = self.is_whole.swap(true, Ordering::SeqCst);
                let listed = self.tools.iter().filter(|name| is_whole || !(self.is_later)(name));
                json!({"tools": listed.map(tool).collect::<Vec<_>>()})
            }
            "tools/call" => {
                let ran = (self.name.clone(), name().expect("a name"));
                assert_ne!(ran.1, BROKEN, "it panics");
                let params: Value = call.params.as_ref().expect("parameters").read().expect("JSON");
                let arguments = &params["arguments"];
                let is_fixed = self.name == FIXED && arguments["through"] == "view";
                let expected = if is_fixed { json!(OPERATOR) } else { json!(null) };
                let is_own = arguments["who"] == CLIENT && !is_fixed;
                let ran = if arguments["who"] == expected || is_own { ran } else { (FORGED.into(), ran.1) };
                self.ran.lock().expect("no panic holds it").insert(ran);
                json!({"content": []})
            }
            _ => json!({}),
        };
        async move { Ok(ResponseBody::Buffered(Ok(Raw::of(&reply)))) }.boxed()
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        std::future::pending().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

struct ToRecording(Arc<Recording>);

impl Connector for ToRecording {
    fn connect(
        &self,
        _: Events,
        _: Dialect,
    ) -> BoxFuture<'static, Result<Arc<dyn Connection>, upstream::Error>> {
        let connection: Arc<dyn Connection> = self.0.clone();
        async move { Ok(connection) }.boxed()
    }

    fn speaks(&self, era: Era) -> Option<bool> {
        Some(era == Era::Modern)
    }

    fn requests_per_connection(&self) -> usize {
        usize::MAX
    }
}

/// The configuration of an operator: servers, their tools, and the rules for these.
pub struct Written {
    /// Tools and rules, by the name of the server.
    pub servers: BTreeMap<String, (Vec<String>, config::Tools)>,
    /// How tools are named.
    pub names: ToolNames,
    /// The rules of a view, if there is one.
    pub view: Option<Selected>,
}

/// The rules of a view: servers, and allowed and denied tools as `server/tool`.
#[derive(Debug)]
pub struct Selected {
    /// Whether tools that come later are held.
    holds_new: bool,
    servers: Option<Vec<String>>,
    allow: Option<Vec<String>>,
    deny: Vec<String>,
}

/// The name of the view.
const VIEW: &str = "selected";
/// The server for whose tools the view fixes the argument `who`, and the values of the operator and of clients.
const FIXED: &str = "s0";
const OPERATOR: &str = "operator";
const CLIENT: &str = "client";
/// The server of a call whose arguments are not those that the operator fixed.
const FORGED: &str = "forged";

/// Whether a server lists the tool later than others.
fn is_later(tool: &str) -> bool {
    matches!(tool, "b" | "s1.b" | "read file")
}

/// How many spellings of unlisted tools are tried for each policy.
const OTHERS: usize = 6;

/// Names that clash, that look like qualified names of each other, or that look like names of Switchyard.
const NAMES: [&str; 9] = ["a", "b", "c", "A", "s0__a", "s1.b", "a__b", "read file", "s1"];

impl Written {
    fn random(random: &mut StdRng) -> Self {
        let server = |index: usize, random: &mut StdRng| {
            let tools: Vec<String> =
                NAMES.iter().filter(|_| random.random_bool(0.5)).map(|&name| name.to_owned()).collect();
            (format!("s{index}"), (tools, rules(random)))
        };
        let count = random.random_range(2..=3);
        let names = if random.random() { ToolNames::Auto } else { ToolNames::Prefixed };
        let servers: BTreeMap<_, _> = (0..count).map(|index| server(index, random)).collect();
        let view = Some(Selected::random(&servers.keys().map(String::as_str).collect::<Vec<_>>(), random));
        Self { servers, names, view }
    }

    /// Whether the rules permit the tool, according to their documentation.
    fn permits(&self, server: &str, tool: &str) -> bool {
        let (tools, rules) = &self.servers[server];
        let is_allowed = rules.allow.as_ref().is_none_or(|allow| allow.iter().any(|name| name == tool));
        is_allowed && !rules.deny.iter().any(|name| name == tool) && tools.iter().any(|name| name == tool)
    }

    /// Returns all tools that may be visible in `scope`.
    fn permitted(&self, scope: &Scope) -> BTreeSet<(String, String)> {
        let is_in = |server: &str| scope.server.as_ref().is_none_or(|one| **one == *server);
        let all = self.servers.iter().filter(|(name, _)| is_in(name));
        let all =
            all.flat_map(|(name, (tools, _))| tools.iter().map(move |tool| (name.clone(), tool.clone())));
        let view = self.view.as_ref().filter(|_| scope.view.is_some());
        let is_selected = |server: &str, tool: &str| {
            // The first list with tools is known.
            let is_new = is_later(tool) && self.servers[server].0.iter().any(|one| !is_later(one));
            view.is_none_or(|view| view.has(server, tool) && !(is_new && view.holds(server, tool)))
        };
        all.filter(|(server, tool)| self.permits(server, tool) && is_selected(server, tool)).collect()
    }

    /// Whether a server gets calls of tools that it does not list: at its own endpoint, if it has no policy.
    fn passes_unlisted(&self, scope: &Scope) -> bool {
        let Some(one) = scope.server.as_ref().filter(|_| scope.view.is_none()) else { return false };
        let rules = &self.servers[&**one].1;
        let offers_all = rules.allow.is_none() && rules.deny.is_empty() && rules.rename.is_empty();
        offers_all && rules.on_change != config::OnChange::Block
    }

    /// Whether a new name equals the name of another tool of its server. Then one of the two is left out.
    fn hides_one(&self) -> bool {
        let mut rules = self.servers.values();
        rules.any(|(tools, rules)| rules.rename.values().any(|name| tools.contains(name)))
    }

    /// Returns many spellings of the tools, permitted or not.
    fn spellings(&self) -> Vec<String> {
        let of_server = |(server, (_, rules)): (&String, &(Vec<String>, config::Tools))| {
            let own = NAMES.iter().map(|&name| name.to_owned()).chain(rules.rename.values().cloned());
            let own: Vec<String> = own.collect();
            let qualified =
                own.iter().flat_map(|name| ["__", ".", "/", ":"].map(|by| format!("{server}{by}{name}")));
            qualified.chain(own.iter().cloned()).collect::<Vec<_>>()
        };
        let all: BTreeSet<String> = self.servers.iter().flat_map(of_server).collect();
        all.into_iter().collect()
    }

    /// Starts a manager with this configuration.
    pub fn start(&self, ran: &Ran, shutdown: &Shutdown) -> Arc<Manager> {
        let connector = |(name, (tools, _)): (&String, &(Vec<String>, config::Tools))| -> Arc<dyn Connector> {
            let peer = Peer {
                version: Version::V2026_07_28,
                info: Raw::empty_object(),
                capabilities: Raw::of(&json!({"tools": {}})),
                instructions: None,
            };
            let (name, tools) = (name.clone(), tools.clone());
            let (ran, is_whole) = (Arc::clone(ran), AtomicBool::new(false));
            Arc::new(ToRecording(Arc::new(Recording { name, tools, is_whole, is_later, peer, ran })))
        };
        let connectors = self.servers.iter().map(connector).collect();
        let mut config = crate::transcripts::manager_config(self.servers.keys().map(String::as_str));
        for server in &mut config.servers {
            server.tools = self.servers[&*server.name].1.clone();
        }
        let views = self.view.iter().map(|view| Arc::new(view.view())).collect();
        let config = manager::Config { tool_names: self.names, tools_per_page: 20, views, ..config };
        Manager::with_connectors(config, connectors, shutdown.clone())
    }
}

impl Selected {
    fn random(servers: &[&str], random: &mut StdRng) -> Self {
        let mut rules = |often: f64| -> Vec<String> {
            let of = |server: &&str| NAMES.map(|name| format!("{server}/{name}"));
            let patterns = ["s0/*", "*/a", "s*/b*", "*/*"].map(str::to_owned);
            let all = servers.iter().flat_map(of).chain(patterns);
            all.filter(|_| random.random_bool(often)).collect()
        };
        let (allow, deny) = (rules(0.3), rules(0.1));
        let some: Vec<String> =
            servers.iter().filter(|_| random.random_bool(0.7)).map(|&server| server.to_owned()).collect();
        let (servers, allow) = match random.random_range(0..3) {
            0 => (Some(some), None),
            1 => (None, Some(allow)),
            _ => (Some(some), Some(allow)),
        };
        Self { holds_new: random.random(), servers, allow, deny }
    }

    /// Whether the view holds the tool if it comes later, according to its documentation.
    fn holds(&self, server: &str, tool: &str) -> bool {
        let name = format!("{server}/{tool}");
        self.holds_new && !self.allow.as_ref().is_some_and(|allow| allow.contains(&name))
    }

    /// Whether the view has the tool, according to its documentation.
    fn has(&self, server: &str, tool: &str) -> bool {
        let matches = |rule: &String| {
            let (of, name) = rule.split_once('/').expect("a rule");
            let is = |written: &str, name: &str| match written.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => written == name,
            };
            is(of, server) && is(name, tool)
        };
        let is_there = self.servers.as_ref().is_none_or(|servers| servers.iter().any(|one| one == server));
        is_there
            && self.allow.as_ref().is_none_or(|allow| allow.iter().any(matches))
            && !self.deny.iter().any(matches)
    }

    fn view(&self) -> View {
        let texts = |all: &Vec<String>| all.iter().map(|one| &*one.clone().leak()).collect::<Vec<&str>>();
        let (servers, allow) = (self.servers.as_ref().map(texts), self.allow.as_ref().map(texts));
        let view = View::of(VIEW, servers.as_deref(), allow.as_deref(), &texts(&self.deny)).expect("rules");
        let view = if self.holds_new { view.holding_new_tools() } else { view };
        NAMES.iter().fold(view, |view, tool| view.fixing((FIXED, tool), ("who", &json!(OPERATOR))))
    }
}

fn rules(random: &mut StdRng) -> config::Tools {
    let mut some = |often: f64| -> Vec<String> {
        NAMES.iter().filter(|_| random.random_bool(often)).map(|&name| name.to_owned()).collect()
    };
    let (allow, deny, renamed) = (some(0.6), some(0.2), some(0.2));
    let new = |name: &String| (name.clone(), format!("new-{}", name.replace(' ', "-")));
    let mut rename: BTreeMap<String, String> = renamed.iter().map(new).collect();
    // Sometimes a tool gets the name of another one, which may be a denied one.
    if let Some(name) = rename.values_mut().next().filter(|_| random.random()) {
        (*["a", "b", "c"].choose(random).expect("some")).clone_into(name);
    }
    let allow = random.random::<bool>().then_some(allow);
    config::Tools { allow, deny, rename, ..config::Tools::default() }
}

/// A caller at one endpoint.
struct Asker<'a> {
    gateway: &'a Gateway,
    principal: Principal,
    scope: Scope,
    era: Era,
}

impl Asker<'_> {
    async fn ask(&self, method: &str, params: &Value) -> Reply {
        let params = Raw::of(params);
        let (principal, scope) = (self.principal.clone(), self.scope.clone());
        let caller = match self.era {
            Era::Modern => Caller::modern(principal, scope, Some(&params)),
            Era::Legacy => Caller::legacy(principal, scope, Some(&params)),
        };
        let request = Request { id: RequestId::from_u64(1), method: method.into(), params: Some(params) };
        gateway::collect(
            self.gateway.handle(&caller, &request, &EventSender::none()).await,
            caller.version.era(),
        )
        .await
    }

    /// Returns the names on all pages.
    async fn listed(&self) -> Vec<String> {
        let (mut names, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
            let page: Value = self.ask("tools/list", &params).await.expect("a list").read().expect("JSON");
            let tools = page["tools"].as_array().expect("tools");
            names.extend(tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()));
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return names;
            }
        }
    }
}

/// RULES S7: listed tools can be called, and tools that are not listed cannot, under any spelling. This runs
/// 10,000 policies with random rules of servers. Each policy is tried with all roles in both eras, at the
/// endpoint of all servers and at those of single ones.
#[tokio::test(start_paused = true)]
async fn listed_tools_can_be_called_and_no_others() {
    let mut random = StdRng::seed_from_u64(7);
    let (mut policies, mut calls) = (0, 0);
    while policies < 10_000 {
        let (written, ran, shutdown) = (Written::random(&mut random), Ran::default(), Shutdown::new());
        let manager = written.start(&ran, &shutdown);
        manager.settled(&Scope::ALL, Duration::from_mins(1)).await;
        for server in written.servers.keys() {
            manager.reconnect(server, None).await.expect("it is read again");
        }
        let gateway = Gateway::new(manager, shutdown.clone());
        let spellings = written.spellings();
        let view = || Some(VIEW.into());
        let of_view = |server: &String| Scope { view: view(), server: Some(server.as_str().into()) };
        let servers = written.servers.keys().map(|name| Scope::of_server(name.as_str()));
        let all = [Scope::ALL, Scope { view: view(), server: None }].into_iter();
        let own = Arc::from(VIEW);
        let is_reached = |scope: &Scope| {
            let server = scope.server.as_deref().filter(|_| scope.view.is_some());
            server.is_none_or(|server| gateway.manager().reach(Some(&own), Some(server), None).is_ok())
        };
        let scopes = all.chain(servers).chain(written.servers.keys().map(of_view));
        for scope in scopes.filter(is_reached) {
            let all =
                Role::ALL.into_iter().flat_map(|role| [Era::Modern, Era::Legacy].map(|era| (role, era)));
            for (role, era) in all {
                let (principal, scope) = (Principal::new("somebody", role), scope.clone());
                let asker = Asker { gateway: &gateway, principal, scope, era };
                let (listed, permitted) = (asker.listed().await, written.permitted(&asker.scope));
                let about =
                    || format!("{:?} {role} {era:?} {:?} {:?}", asker.scope, written.servers, written.view);
                let names: BTreeSet<&String> = listed.iter().collect();
                assert_eq!(names.len(), listed.len(), "{}", about());
                let others = spellings.sample(&mut random, OTHERS).filter(|name| !names.contains(name));
                let may = role != Role::Reader;
                // All calls of a reader are refused at one place, so two are enough.
                let most = if may { usize::MAX } else { 2 };
                let tried: Vec<&String> = listed.iter().take(most).chain(others.take(most)).collect();
                ran.lock().expect("no panic holds it").clear();
                for name in tried {
                    calls += 1;
                    let is_listed = names.contains(name);
                    let through = if asker.scope.view.is_some() { "view" } else { "no view" };
                    let arguments = json!({"through": through});
                    let is_done =
                        asker.ask("tools/call", &json!({"name": name, "arguments": arguments})).await.is_ok();
                    // It is refused, or reaches another server.
                    let arguments = json!({"through": through, "who": CLIENT});
                    let _ = asker.ask("tools/call", &json!({"name": name, "arguments": arguments})).await;
                    assert!(!is_listed || is_done == may, "{name} is listed: {}", about());
                    assert!(may || !is_done, "{name}: {}", about());
                }
                let ran = ran.lock().expect("no panic holds it").clone();
                let passes = written.passes_unlisted(&asker.scope);
                let is_there = |server: &str| asker.scope == Scope::of_server(server);
                let is_allowed =
                    |one: &(String, String)| permitted.contains(one) || passes && is_there(&one.0);
                assert!(ran.iter().all(is_allowed), "{ran:?} {}", about());
                let listed_ran = ran.intersection(&permitted).count();
                assert_eq!(listed_ran, if may { listed.len() } else { 0 }, "{}", about());
                assert!(written.hides_one() || listed.len() == permitted.len(), "{}", about());
                policies += 1;
            }
        }
        shutdown.begin();
    }
    assert!(calls > 25_000, "{calls} calls");
}

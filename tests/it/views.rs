//! Views: each key, user or client gets its own servers and tools, on every way into the gateway.

use serde_json::{Value, json};

use crate::messages::texts_of;
use crate::revoked::bearer;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Answer, Client, Gateway, Registry, Running, api_keys, eventually};

pub(crate) const OPERATOR: &str = "swy_op_0123456789abcdef0123456789abcdef0123456789abcdef";
pub(crate) const BOUND: &str = "swy_bound_abcdef0123456789abcdef0123456789abcdef0123456789";
pub(crate) const OTHER: &str = "swy_other_abcdef0123456789abcdef0123456789abcdef0123456789";
pub(crate) const LOST: &str = "swy_lost_abcdef0123456789abcdef0123456789abcdef0123456789";

const READ: &str = r#"{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;
const RESOURCES: &str = r#"[{"uri":"test:///public/a","name":"a"},{"uri":"test:///secret/b","name":"b"}]"#;

/// Two servers with tools of the same names, prompts and resources.
pub(crate) fn servers() -> [Server; 2] {
    [(); 2].map(|()| {
        let tools = ["search", "delete", "write"].map(Tool::named);
        let server = tools.into_iter().fold(Scripted::modern(), Scripted::tool);
        let server = server.tool(Tool::defined("read", READ)).offers("resources", RESOURCES);
        server.offers("prompts", r#"[{"name":"brief"},{"name":"long"}]"#).start()
    })
}

pub(crate) const VIEWS: &str = "views:
  support:
    allow: [\"tickets/*\", \"docs/search\"]
    deny: [\"tickets/delete\", \"tickets/long\", \"tickets/test:///secret/*\"]
  writers: {servers: [docs], deny: [\"docs/read\"]}
  readers: {servers: [\"*\"], read_only: true}";

pub(crate) fn registry([tickets, docs]: &[Server; 2], views: &str) -> Registry {
    let keys = [
        (OPERATOR, "role: superuser"),
        (BOUND, "role: caller, view: support"),
        (OTHER, "role: caller, view: writers"),
        (LOST, "role: caller, view: gone"),
    ];
    let registry = Registry::new().http("tickets", &tickets.url()).http("docs", &docs.url());
    registry.setting(views).setting(&format!("server: {{{}}}", api_keys(&keys)))
}

pub(crate) async fn started(servers: &[Server; 2]) -> Running {
    let gateway = Gateway::of(&registry(servers, VIEWS)).start().await;
    gateway.offers_to("tickets__search", &bearer(OPERATOR)).await;
    gateway.offers_to("docs__search", &bearer(OPERATOR)).await;
    gateway
}

pub(crate) fn client(gateway: &Running, key: &str) -> Client {
    gateway.mcp().with_header("authorization", &bearer(key))
}

pub(crate) fn names(result: &Value, member: &str, key: &str) -> Vec<String> {
    let items = result[member].as_array().unwrap_or_else(|| panic!("{member}: {result}"));
    let mut names: Vec<String> =
        items.iter().map(|item| item[key].as_str().expect("a text").to_owned()).collect();
    names.sort();
    names
}

pub(crate) async fn rest(gateway: &Running, key: &str, route: &str) -> Answer {
    let url = gateway.url(&format!("/api/v1/mcp{route}"));
    client(gateway, key).to(&url).bare(http::Method::GET, &[]).await
}

pub(crate) async fn call(gateway: &Running, key: &str, body: &Value) -> Answer {
    let url = gateway.url("/api/v1/mcp/call");
    client(gateway, key).to(&url).post(&body.to_string(), &[]).await
}

const OF_SUPPORT: [&str; 4] = ["docs__search", "read", "tickets__search", "write"];

#[tokio::test]
async fn a_bound_key_gets_what_its_view_has_over_every_transport() {
    let servers = servers();
    let gateway = started(&servers).await;
    let bound = client(&gateway, BOUND);
    let modern = bound.modern("tools/list", json!({})).await;
    assert_eq!(names(&modern.result(), "tools", "name"), OF_SUPPORT);
    assert_eq!(modern.result()["cacheScope"], "private");
    let session = bound.legacy().await;
    let legacy = session.request("tools/list", json!({})).await;
    assert_eq!(names(&legacy.result(), "tools", "name"), OF_SUPPORT);
    let over_rest = rest(&gateway, BOUND, "/tools").await.json();
    assert_eq!(names(&over_rest, "tools", "name"), OF_SUPPORT);
    let at_own = bound.to(&gateway.url("/mcp/support")).modern("tools/list", json!({})).await;
    assert_eq!(names(&at_own.result(), "tools", "name"), OF_SUPPORT);
    let at_server = bound.to(&gateway.url("/mcp/docs")).modern("tools/list", json!({})).await;
    assert_eq!(names(&at_server.result(), "tools", "name"), ["search"]);
    let prompts = bound.modern("prompts/list", json!({})).await;
    assert_eq!(names(&prompts.result(), "prompts", "name"), ["brief"]);
    let resources = bound.modern("resources/list", json!({})).await;
    assert_eq!(names(&resources.result(), "resources", "uri"), ["test:///public/a"]);

    // Other views and the rest of the gateway do not exist for it.
    for path in ["/mcp/writers", "/mcp/none", "/sse/writers", "/sse?view=writers"] {
        let there =
            bound.to(&gateway.url(path)).bare(http::Method::GET, &[("accept", "text/event-stream")]).await;
        assert_eq!(there.status, 404, "{path}: {}", there.body);
    }
    assert_eq!(rest(&gateway, BOUND, "/tools?view=writers").await.json()["code"], "view_not_found");
    assert_eq!(rest(&gateway, BOUND, "/tools?view=none").await.json()["code"], "view_not_found");
    let seen = rest(&gateway, OTHER, "/servers").await.json();
    assert_eq!(names(&seen, "servers", "name"), ["docs"]);
    for route in ["/health", "/circuit-breakers"] {
        let text = rest(&gateway, OTHER, route).await.body;
        assert!(!text.contains("tickets"), "{route}: {text}");
    }
    let metrics = client(&gateway, OTHER).to(&gateway.url("/metrics")).bare(http::Method::GET, &[]).await;
    assert_eq!(metrics.status, 403, "{}", metrics.body);

    // The old transport.
    let mut old = bound.to(&gateway.url("/sse")).listen().await;
    let address = old.event().await.expect("the first event").data;
    let messages = bound.to(&gateway.url(&address));
    let hello = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    messages.post(&messages.envelope("initialize", &hello.to_string()), &[]).await;
    messages.post(&messages.envelope("tools/list", "{}"), &[]).await;
    let listed = eventually("the list over SSE", async || {
        let message: Value = serde_json::from_str(&old.event().await.expect("an event").data).expect("JSON");
        message["result"]["tools"].is_array().then(|| message["result"].clone())
    })
    .await;
    assert_eq!(names(&listed, "tools", "name"), OF_SUPPORT);

    // A key whose view is gone gets nothing.
    let lost = client(&gateway, LOST).modern("tools/list", json!({})).await;
    assert_eq!(lost.result()["tools"], json!([]));
    assert_eq!(rest(&gateway, LOST, "/servers").await.json()["servers"], json!([]));
}

#[tokio::test]
async fn a_denied_tool_is_like_one_that_does_not_exist() {
    let servers = servers();
    let gateway = started(&servers).await;
    let bound = client(&gateway, BOUND);
    let session = bound.legacy().await;
    // Both names have the same length, so that an answer differs in nothing but the name.
    let without = |body: &str, name: &str| {
        let value: Value = serde_json::from_str(body).expect("JSON");
        let mut text = value.to_string().replace(name, "NAME");
        if let Some(id) = value["id"].as_u64() {
            text = text.replacen(&format!("\"id\":{id}"), "\"id\":0", 1);
        }
        let parts: Vec<&str> = text.split("\"request_id\":\"").collect();
        parts
            .iter()
            .enumerate()
            .map(|(at, part)| if at == 0 { *part } else { &part[36..] })
            .collect::<String>()
    };
    for (denied, absent) in [
        ("delete", "deleet"),
        ("tickets__delete", "tickets__deleet"),
        ("tickets.delete", "tickets.deleet"),
        ("docs__write", "docs__wriet"),
        ("docs__delete", "docs__deleet"),
    ] {
        let ask = async |name: &str| {
            let modern = bound.call(name, json!({})).await;
            let legacy = session.call(name, json!({})).await;
            let over_rest = call(&gateway, BOUND, &json!({"tool": name})).await;
            let shown = rest(&gateway, BOUND, &format!("/tools/{name}")).await;
            [modern, legacy, over_rest, shown].map(|answer| (answer.status, without(&answer.body, name)))
        };
        assert_eq!(ask(denied).await, ask(absent).await, "{denied}");
    }
    let at_server = |tool: &str| json!({"server": "tickets", "tool": tool});
    let denied = call(&gateway, BOUND, &at_server("delete")).await;
    let absent = call(&gateway, BOUND, &at_server("deleet")).await;
    assert_eq!(
        (denied.status, without(&denied.body, "delete")),
        (absent.status, without(&absent.body, "deleet"))
    );
    let prompt = |name: &str| bound.modern("prompts/get", json!({"name": name}));
    let (denied, absent) = (prompt("long").await, prompt("lnog").await);
    assert_eq!(without(&denied.body, "long"), without(&absent.body, "lnog"));
    for secret in ["test:///secret/b", "test:///%73ecret/b", "test:///public/../secret/b"] {
        let read = bound.modern("resources/read", json!({"uri": secret})).await;
        assert!(read.json()["error"].is_object(), "{secret}: {}", read.body);
    }
    for server in &servers {
        assert_eq!((server.runs("delete"), server.runs("deleet")), (0, 0));
        let reads = server.seen_calling("resources/read");
        assert!(reads.iter().all(|read| !read.params().contains("secret")), "{reads:?}");
    }
    assert_eq!(servers[1].runs("write"), 0);
}

#[tokio::test]
async fn no_spelling_of_a_denied_tool_reaches_its_server() {
    let servers = servers();
    let gateway = started(&servers).await;
    let bound = client(&gateway, BOUND);
    let session = bound.legacy().await;
    let separators = ["__", ".", "/", ":", "___", "%2F", "\u{200b}", "\\u005f\\u005f"];
    let cases = [
        "delete",
        "Delete",
        "DELETE",
        " delete",
        "delete ",
        "del\u{0435}te",
        "%64elete",
        "delete\0",
        "\\u0064elete",
    ];
    let qualified = ["tickets", "docs", "support", "writers"].into_iter().flat_map(|server| {
        separators.into_iter().flat_map(move |by| cases.map(|name| format!("{server}{by}{name}")))
    });
    let spellings: Vec<String> = cases.iter().map(|&name| name.to_owned()).chain(qualified).collect();
    let mut tried = 0;
    for name in &spellings {
        let escape = |unit: u16| format!("\\u{unit:04x}");
        let escaped = name.encode_utf16().map(escape).collect::<Vec<_>>().concat();
        session.request_text("tools/call", &format!("{{\"name\":\"{escaped}\",\"arguments\":{{}}}}")).await;
        call(&gateway, BOUND, &json!({"tool": name})).await;
        call(&gateway, BOUND, &json!({"server": "tickets", "tool": name})).await;
        call(&gateway, BOUND, &json!({"view": "writers", "tool": name})).await;
        tried += 4;
        if !name.contains(['\0', '\\']) {
            bound.call(name, json!({})).await;
            bound.to(&gateway.url("/mcp/tickets")).call(name, json!({})).await;
            bound.to(&gateway.url("/mcp/support")).call(name, json!({})).await;
            bound.to(&gateway.url("/mcp/writers")).call(name, json!({})).await;
            tried += 4;
        }
    }
    assert!(tried > 1_000, "{tried}");
    let runs = |tool: &str| servers.iter().map(|server| server.runs(tool)).sum::<usize>();
    assert_eq!((runs("delete"), servers[1].runs("write"), servers[1].runs("read")), (0, 0, 0));
    assert!(bound.call("write", json!({})).await.result().is_object());
    assert_eq!(servers[0].runs("write"), 1, "the client works");
}

#[tokio::test]
async fn clients_choose_a_view_by_its_address() {
    let servers = servers();
    let gateway = started(&servers).await;
    let operator = client(&gateway, OPERATOR);
    let listed = operator.to(&gateway.url("/mcp/readers")).modern("tools/list", json!({})).await;
    assert_eq!(names(&listed.result(), "tools", "name"), ["docs__read", "tickets__read"]);
    let over_rest = rest(&gateway, OPERATOR, "/tools?view=writers").await.json();
    assert_eq!(names(&over_rest, "tools", "name"), ["delete", "search", "write"]);
    let called = call(&gateway, OPERATOR, &json!({"tool": "write", "view": "writers"})).await;
    assert_eq!((called.status, &called.json()["server"]), (200, &json!("docs")), "{}", called.body);
    let hidden = call(&gateway, OPERATOR, &json!({"tool": "read", "view": "writers"})).await;
    assert_eq!(hidden.json()["code"], "tool_not_found", "{}", hidden.body);
    let mut command = gateway.gateway().command("stdio");
    command.args(["--view", "nobody"]);
    let refused = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && text.contains("there is no such view"), "{text}");
}

#[tokio::test]
async fn a_view_changes_names_and_annotations_of_its_tools() {
    let servers = servers();
    let changed = "views:
  support:
    allow: [\"tickets/*\"]
    read_only: true
    tools:
      tickets/search: {name: find, description: Finds tickets., read_only: true, pinned: true}
      tickets/read: {read_only: false}
  writers: {servers: [docs]}";
    let gateway = Gateway::of(&registry(&servers, changed)).start().await;
    gateway.offers_to("tickets__search", &bearer(OPERATOR)).await;
    let bound = client(&gateway, BOUND);
    let listed = bound.modern("tools/list", json!({})).await.result();
    assert_eq!(names(&listed, "tools", "name"), ["find"]);
    let tool = &listed["tools"][0];
    assert_eq!(
        (&tool["description"], &tool["annotations"]["readOnlyHint"]),
        (&json!("Finds tickets."), &json!(true))
    );
    assert_eq!(tool["_meta"]["anthropic/alwaysLoad"], true);
    assert!(bound.call("find", json!({})).await.result().is_object());
    assert_eq!(servers[0].runs("search"), 1, "its server knows it by its own name");
    assert!(bound.call("search", json!({})).await.json()["error"].is_object());
    assert!(bound.call("read", json!({})).await.json()["error"].is_object());
    let all = rest(&gateway, OPERATOR, "/tools").await.json();
    assert!(
        all["tools"].to_string().contains("tickets__search") && !all["tools"].to_string().contains("Finds")
    );
}

#[tokio::test]
async fn a_reload_that_narrows_a_view_ends_what_is_outside_of_it() {
    let servers = servers();
    let gateway = started(&servers).await;
    let session = client(&gateway, BOUND).legacy().await;
    assert_eq!(names(&session.request("tools/list", json!({})).await.result(), "tools", "name"), OF_SUPPORT);
    let other = client(&gateway, OTHER).legacy().await;
    let (mut stream, mut silent) = (session.client.listen().await, other.client.listen().await);
    assert!(session.call("write", json!({})).await.result().is_object());

    let narrow = VIEWS.replace("\"tickets/delete\"", "\"tickets/delete\", \"tickets/write\"");
    gateway.rewrite(&registry(&servers, &narrow).yaml());
    let url = gateway.url("/api/v1/mcp/reload");
    let reloaded = client(&gateway, OPERATOR).to(&url).post("", &[]).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.body);
    let notice = stream.next().await.expect("a notice");
    assert_eq!(notice["method"], "notifications/tools/list_changed");
    let refused = session.call("write", json!({})).await;
    assert!(refused.json()["error"]["message"].to_string().contains("there is no tool"), "{}", refused.body);
    assert_eq!(servers[0].runs("write"), 1);
    let listed = session.request("tools/list", json!({})).await;
    assert_eq!(names(&listed.result(), "tools", "name"), ["docs__search", "read", "tickets__search"]);
    let unheard = tokio::time::timeout(std::time::Duration::from_millis(500), silent.next()).await;
    assert!(unheard.is_err(), "nothing of the other view changed: {unheard:?}");
}

#[tokio::test]
async fn operators_learn_why_a_tool_is_hidden() {
    let servers = servers();
    let gateway = started(&servers).await;
    let why = async |query: &str| rest(&gateway, OPERATOR, &format!("/why?{query}")).await;
    let told = why("tool=delete&view=support").await.json();
    let of = |server: &str| {
        let tools = told["tools"].as_array().expect("tools").iter();
        tools.clone().find(|tool| tool["server"] == server).expect("explained").clone()
    };
    let (denied, unlisted) = (of("tickets"), of("docs"));
    assert_eq!((&denied["is_offered"], &denied["setting"]), (&json!(false), &json!("views.support.deny")));
    assert_eq!(denied["rule"], "tickets/delete");
    let yaml = registry(&servers, VIEWS).yaml();
    let line = 1 + yaml.lines().position(|line| line.contains("\"tickets/delete\"")).expect("there");
    assert_eq!(denied["line"], line, "{yaml}");
    assert_eq!((&unlisted["setting"], unlisted.get("rule")), (&json!("views.support.allow"), None));
    let offered = why("tool=tickets/write&view=support").await.json()["tools"][0].clone();
    assert_eq!((&offered["is_offered"], &offered["listed_as"]), (&json!(true), &json!("write")));
    assert_eq!(why("tool=nothing").await.json()["code"], "tool_not_found");
    assert_eq!(why("tool=delete&view=none").await.json()["code"], "view_not_found");
    assert_eq!(rest(&gateway, BOUND, "/why?tool=delete").await.status, 403);

    let url = gateway.url("");
    let run = |arguments: &[&str]| {
        texts_of(&gateway.gateway().output(&[arguments, &["--url", &url, "--key", OPERATOR]].concat()))
    };
    let (code, out, err) = run(&["why", "tickets/delete", "--as", "bound"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(
        out.contains("do not get it") && out.contains(&format!("tickets/delete in line {line}")),
        "{out}"
    );
    let (_, out, _) = run(&["tools", "--as", "bound", "-o", "name"]);
    let mut listed: Vec<&str> = out.lines().collect();
    listed.sort_unstable();
    assert_eq!(listed, OF_SUPPORT);
}

#[tokio::test]
async fn mistakes_in_views_are_told_with_their_place() {
    for (views, expected) in [
        ("views: {s: {servers: [s]}}", "`s` is the name of a server too"),
        ("views: {v: {read_only: true}}", "the view selects nothing"),
        ("views: {v: {allow: [search]}}", "is not `server/name`"),
        ("views: {v: {servers: [\"s/x\"]}}", "is not the name of a server"),
        ("views: {\"a b\": {servers: [s]}}", "this cannot be the name of a view"),
        ("views: {v: {servers: [s], tools: {x: {title: a}}}}", "expected `server/tool`"),
        ("views: {v: {servers: [s], alow: [\"s/x\"]}}", "did you mean `allow`?"),
    ] {
        let yaml = Registry::new().http("s", "http://127.0.0.1:9/mcp").setting(views).yaml();
        let (code, out, err) = texts_of(&Gateway::with_config(&yaml).output(&["check"]));
        let text = out + &err;
        assert!(code == Some(2) && text.contains(expected), "{views}: {text}");
    }
    let lost = registry(&servers(), VIEWS).yaml();
    let (code, out, err) = texts_of(&Gateway::with_config(&lost).output(&["check"]));
    assert!(code == Some(0) && out.contains("the key `lost` sees nothing"), "{out}{err}");
    let key = "{id: k, hash: \"sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b\", role: superuser, view: v}";
    let yaml = format!(
        "mcp_servers: {{}}\nviews: {{v: {{servers: [\"*\"]}}}}\nserver: {{auth_mode: api_key, api_keys: [{key}]}}\n"
    );
    let (code, out, err) = texts_of(&Gateway::with_config(&yaml).output(&["check"]));
    assert!(code == Some(2) && (out + &err).contains("does not go with the role superuser"));
}

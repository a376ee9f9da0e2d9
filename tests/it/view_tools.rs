//! Single tools in a view: new ones are held, some get arguments, and those of apps are kept from models.

use serde_json::{Value, json};

use crate::messages::texts_of;
use crate::revoked::bearer;
use crate::support::client::{MODERN, client_info};
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Answer, Client, Gateway, Registry, Running, api_keys, eventually};

const OPERATOR: &str = "swy_op_0123456789abcdef0123456789abcdef0123456789abcdef";
const BOUND: &str = "swy_bound_abcdef0123456789abcdef0123456789abcdef0123456789";
const NAMED: &str = "swy_named_abcdef0123456789abcdef0123456789abcdef0123456789";

fn registry(server: &Server, views: &str) -> Registry {
    let keys = [
        (OPERATOR, "role: superuser"),
        (BOUND, "role: caller, view: support"),
        (NAMED, "role: caller, view: named"),
    ];
    Registry::new()
        .http("tickets", &server.url())
        .setting(views)
        .setting(&format!("server: {{{}}}", api_keys(&keys)))
}

fn client(gateway: &Running, key: &str) -> Client {
    gateway.mcp().with_header("authorization", &bearer(key))
}

async fn names(gateway: &Running, key: &str) -> Vec<String> {
    let listed = client(gateway, key).modern("tools/list", json!({})).await;
    let mut names = listed.tool_names();
    names.sort();
    names
}

async fn rest(gateway: &Running, key: &str, route: &str) -> Answer {
    let url = gateway.url(&format!("/api/v1/mcp{route}"));
    client(gateway, key).to(&url).bare(http::Method::GET, &[]).await
}

async fn call(gateway: &Running, key: &str, body: &Value) -> Answer {
    let url = gateway.url("/api/v1/mcp/call");
    client(gateway, key).to(&url).post(&body.to_string(), &[]).await
}

/// The changed tools that operators see.
async fn changes(gateway: &Running) -> Vec<Value> {
    let server = rest(gateway, OPERATOR, "/servers/tickets").await.json();
    server["changed_tools"].as_array().cloned().unwrap_or_default()
}

/// Waits until operators see as many changed tools.
async fn changed(gateway: &Running, count: usize) -> Vec<Value> {
    eventually("operators see the tools", async || {
        let changes = changes(gateway).await;
        (changes.len() == count).then_some(changes)
    })
    .await
}

fn tools(names: &[&str]) -> Vec<Tool> {
    names.iter().map(|name| Tool::named(name)).collect()
}

const HELD: &str = "views:
  support: {servers: [tickets], deny: [\"tickets/secret\"], new_tools: held}
  named: {allow: [\"tickets/late\", \"tickets/sea*\"], new_tools: held}
  other: {servers: [tickets]}";

async fn started(server: &Server, views: &str) -> Running {
    let gateway = Gateway::of(&registry(server, views)).start().await;
    gateway.offers_to("search", &bearer(OPERATOR)).await;
    gateway
}

#[tokio::test]
async fn new_tool_is_like_one_that_does_not_exist_until_it_is_approved() {
    for scripted in [Scripted::modern(), Scripted::legacy()] {
        let server = tools(&["search", "read"]).into_iter().fold(scripted, Scripted::tool).start();
        let gateway = started(&server, HELD).await;
        let bound = client(&gateway, BOUND);
        let session = bound.legacy().await;
        assert_eq!(names(&gateway, BOUND).await, ["read", "search"], "what is there first is known");
        let mut stream = session.client.listen().await;

        server.change_tools(tools(&["search", "read", "late", "secret"]));
        let told = changed(&gateway, 1).await;
        assert_eq!((&told[0]["tool"], &told[0]["changed"]), (&json!("late"), &json!(["new"])));
        assert_eq!((&told[0]["held_in"], &told[0]["held_back"]), (&json!(["support"]), &json!(false)));
        assert_eq!(names(&gateway, OPERATOR).await, ["late", "read", "search", "secret"], "without a view");
        assert_eq!(names(&gateway, NAMED).await, ["late", "search"], "`allow` has its name");
        let lines = gateway.logs("the new tool", |line| line["tool"] == "late").await;
        assert_eq!((&lines[0]["changed"], &lines[0]["outcome"]), (&json!("new"), &json!("held_in_views")));

        // On every way it is as if it were not there.
        assert_eq!(names(&gateway, BOUND).await, ["read", "search"]);
        let listed = session.request("tools/list", json!({})).await;
        assert_eq!(listed.result()["tools"].as_array().map(Vec::len), Some(2));
        assert_eq!(rest(&gateway, BOUND, "/tools").await.json()["tools"].as_array().map(Vec::len), Some(2));
        for (held, absent) in [("late", "laet"), ("tickets__late", "tickets__laet")] {
            let ask = async |name: &str| {
                let answers = [
                    bound.call(name, json!({})).await,
                    bound.to(&gateway.url("/mcp/tickets")).call(name, json!({})).await,
                    session.call(name, json!({})).await,
                    call(&gateway, BOUND, &json!({"tool": name})).await,
                    rest(&gateway, BOUND, &format!("/tools/{name}")).await,
                ];
                answers.map(|answer| {
                    let mut value = answer.json();
                    value["id"] = json!(0);
                    for place in ["/request_id", "/error/data/request_id"] {
                        if let Some(id) = value.pointer_mut(place) {
                            *id = json!("");
                        }
                    }
                    (answer.status, value.to_string().replace(name, "NAME"))
                })
            };
            assert_eq!(ask(held).await, ask(absent).await, "{held}");
        }
        assert_eq!(server.runs("late"), 0);
        let why = rest(&gateway, OPERATOR, "/why?tool=late&view=support").await.json()["tools"][0].clone();
        assert_eq!((&why["is_held"], &why["setting"]), (&json!(true), &json!("views.support.new_tools")));
        assert!(why["advice"].to_string().contains("switchyard approve tickets"), "{why}");
        let unheard = tokio::time::timeout(std::time::Duration::from_millis(300), stream.next()).await;
        assert!(unheard.is_err(), "nothing of the view changed: {unheard:?}");

        let url = gateway.url("");
        let approve = ["approve", "tickets", "--tool", "late", "--yes", "--url", &url, "--key", OPERATOR];
        let (code, out, err) = texts_of(&gateway.gateway().output(&approve));
        assert!(code == Some(0) && (out + &err).contains("held in the views: support"), "{err}");
        let notice = stream.next().await.expect("a notice");
        assert_eq!(notice["method"], "notifications/tools/list_changed");
        assert_eq!(names(&gateway, BOUND).await, ["late", "read", "search"]);
        assert!(session.call("late", json!({})).await.result().is_object());
        assert_eq!((server.runs("late"), changes(&gateway).await.len()), (1, 0));

        // A tool that leaves and comes back is known, and one with another name is not.
        let read_again = async |names: &[&str]| {
            server.change_tools(tools(names));
            let url = gateway.url("/api/v1/mcp/servers/tickets/reconnect");
            client(&gateway, OPERATOR).to(&url).post("", &[]).await;
        };
        // A client with a connection of its own reads its list again with its next request.
        let lists = async |expected: &[&str]| {
            let is_listed = async || (names(&gateway, BOUND).await == expected).then_some(());
            eventually("the list of the view", is_listed).await;
        };
        read_again(&["search", "later"]).await;
        lists(&["search"]).await;
        assert_eq!(changed(&gateway, 1).await[0]["tool"], "later");
        read_again(&["search", "late"]).await;
        lists(&["late", "search"]).await;
        changed(&gateway, 0).await;
    }
}

#[tokio::test]
async fn known_and_held_tools_stay_so_over_a_restart_and_a_reload() {
    let server = tools(&["search", "read"]).into_iter().fold(Scripted::modern(), Scripted::tool).start();
    let gateway = started(&server, HELD).await;
    server.change_tools(tools(&["search", "read", "late"]));
    changed(&gateway, 1).await;
    let gateway = gateway.end().await;
    server.change_tools(tools(&["search", "late", "meanwhile"]));
    let gateway = gateway.start().await;
    gateway.offers_to("meanwhile", &bearer(OPERATOR)).await;
    let told = changed(&gateway, 2).await;
    assert_eq!((&told[0]["tool"], &told[1]["tool"]), (&json!("late"), &json!("meanwhile")));
    assert_eq!(names(&gateway, BOUND).await, ["search"]);

    // Other rules do not make it known, and neither does another address of the server.
    let yaml =
        registry(&server, &HELD.replace("servers: [tickets], deny", "allow: [\"tickets/*\"], deny")).yaml();
    gateway.rewrite(&yaml.replace("/mcp\"", "/mcp?other\""));
    let reload = gateway.url("/api/v1/mcp/reload");
    let reloaded = client(&gateway, OPERATOR).to(&reload).post("", &[]).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.body);
    changed(&gateway, 2).await;
    assert_eq!(names(&gateway, BOUND).await, ["search"]);
    let approve = gateway.url("/api/v1/mcp/servers/tickets/tools/approve?current=true");
    let approved = client(&gateway, OPERATOR).to(&approve).post("", &[]).await;
    assert_eq!(approved.json()["changed_tool_count"], 0, "{}", approved.body);
    assert_eq!(names(&gateway, BOUND).await, ["late", "meanwhile", "search"]);
    let gateway = gateway.end().await.start().await;
    gateway.offers_to("meanwhile", &bearer(OPERATOR)).await;
    assert_eq!(names(&gateway, BOUND).await, ["late", "meanwhile", "search"]);
}

#[tokio::test]
async fn tool_that_changes_its_annotations_is_new_to_a_view_that_selects_by_them() {
    let tool = |is_read_only: bool| {
        let definition = json!({"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": is_read_only}});
        Tool::defined("wipe", &definition.to_string())
    };
    let search = || {
        let definition = json!({"name": "search", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
        Tool::defined("search", &definition.to_string())
    };
    let server = Scripted::modern().tool(search()).tool(tool(false)).start();
    let views = "views: {support: {servers: [tickets], read_only: true, new_tools: held}}";
    let gateway = started(&server, views).await;
    assert_eq!(names(&gateway, BOUND).await, ["search"]);
    server.change_tools(vec![search(), tool(true)]);
    let told = changed(&gateway, 1).await;
    assert_eq!((&told[0]["changed"], &told[0]["held_in"]), (&json!(["annotations"]), &json!(["support"])));
    assert_eq!(names(&gateway, BOUND).await, ["search"]);
    let approve = gateway.url("/api/v1/mcp/servers/tickets/tools/approve?tool=wipe&current=true");
    client(&gateway, OPERATOR).to(&approve).post("", &[]).await;
    assert_eq!(names(&gateway, BOUND).await, ["search", "wipe"]);
}

const FIND: &str = r#"{"name":"find","inputSchema":{"type":"object","properties":{"project":{"type":"string","x-mcp-header":"Project"},"query":{"type":"string"},"limit":{"type":"integer","maximum":50,"x-mcp-header":"Limit"}},"required":["project","query","limit"],"$defs":{"kept":{"type":"string"}}}}"#;
const CANARY: &str = "canary-project-7f3a";
const GIVEN: &str = "history: {arguments: true}
views:
  support:
    servers: [tickets]
    tools:
      tickets/find: {fixed_arguments: {project: \"${PROJECT}\"}, default_arguments: {limit: 10}}
  other: {servers: [tickets]}";

async fn with_arguments(server: &Server) -> Running {
    let gateway = Gateway::of(&registry(server, GIVEN)).env("PROJECT", CANARY).start().await;
    gateway.offers_to("find", &bearer(OPERATOR)).await;
    gateway
}

#[tokio::test]
async fn fixed_argument_is_in_each_call_and_not_in_the_schema() {
    for (scripted, is_modern) in [(Scripted::modern(), true), (Scripted::legacy(), false)] {
        let server = scripted.tool(Tool::defined("find", FIND)).start();
        let gateway = with_arguments(&server).await;
        let bound = client(&gateway, BOUND);
        let session = bound.legacy().await;
        let schema = bound.modern("tools/list", json!({})).await.result()["tools"][0]["inputSchema"].clone();
        let expected = json!({"type": "object", "required": ["query"], "$defs": {"kept": {"type": "string"}},
            "properties": {"query": {"type": "string"},
                "limit": {"type": "integer", "maximum": 50, "x-mcp-header": "Limit", "default": 10}}});
        assert_eq!(schema, expected);
        let all = client(&gateway, OPERATOR).modern("tools/list", json!({})).await.result();
        assert_eq!(all["tools"][0]["inputSchema"]["required"], json!(["project", "query", "limit"]));

        // The arguments of the client stay as they are, byte for byte.
        let odd = r#"{"name":"find","arguments":{ "query" : "a\u0062", "n":1e400}}"#;
        session.request_text("tools/call", odd).await;
        bound.modern_text("tools/call", odd).await;
        let body = format!(r#"{{"tool":"find","arguments":{}}}"#, r#"{ "query" : "a\u0062", "n":1e400}"#);
        let url = gateway.url("/api/v1/mcp/call");
        client(&gateway, BOUND).to(&url).post(&body, &[]).await;
        let calls = server.seen_calling("tools/call");
        assert_eq!(calls.len(), 3);
        for call in &calls {
            let sent =
                format!(r#""arguments":{{ "query" : "a\u0062", "n":1e400,"project":"{CANARY}","limit":10}}"#);
            assert!(call.body.contains(&sent), "{}", call.body);
            if is_modern {
                assert_eq!(call.header("mcp-param-project"), Some(CANARY));
                assert_eq!(call.header("mcp-param-limit"), Some("10"));
            }
        }

        // A default can be sent, with its header, and counts then.
        let params = r#"{"name":"find","arguments":{"query":"b","limit":5}}"#;
        let own = bound.with_header("mcp-param-limit", "5");
        assert!(own.modern_text("tools/call", params).await.result().is_object());
        assert!(server.seen_calling("tools/call")[3].body.contains(r#""limit":5,"project""#));
        let bound = client(&gateway, BOUND);
        assert!(
            bound.modern_text("tools/call", params).await.json()["error"].is_object(),
            "without its header"
        );
        let spoofed = client(&gateway, BOUND).with_header("mcp-param-project", "other");
        let refused = spoofed.call("find", json!({"query": "b"})).await;
        assert!(refused.body.contains("header mismatch"), "{}", refused.body);

        // A fixed one cannot be sent, in any spelling.
        for arguments in [
            r#"{"query":"b","project":"x"}"#,
            r#"{"pro\u006aect":null}"#,
            r#"{"query":"b","query":"c","project":1}"#,
        ] {
            let params = format!(r#"{{"name":"find","arguments":{arguments}}}"#);
            let body = format!(r#"{{"tool":"find","arguments":{arguments}}}"#);
            let refusals = [
                session.request_text("tools/call", &params).await.json()["error"].clone(),
                client(&gateway, BOUND).modern_text("tools/call", &params).await.json()["error"].clone(),
            ];
            for refusal in refusals {
                assert_eq!(
                    (&refusal["code"], &refusal["data"]["code"]),
                    (&json!(-32602), &json!("invalid_params"))
                );
                assert!(refusal["message"].to_string().contains("project"), "{refusal}");
            }
            let refused = client(&gateway, BOUND).to(&url).post(&body, &[]).await;
            assert_eq!(
                (refused.status, &refused.json()["code"]),
                (400, &json!("invalid_request")),
                "{}",
                refused.body
            );
        }
        assert_eq!(server.runs("find"), 4);

        // Operators do not read its value.
        let why = rest(&gateway, OPERATOR, "/why?tool=find&view=support").await.body;
        let history = rest(&gateway, OPERATOR, "/history").await.body;
        assert!(history.contains("\"arguments\""), "{history}");
        assert!(!history.contains("\"limit\":10"), "the client did not send it: {history}");
        let logs: String = gateway.log().iter().map(Value::to_string).collect();
        for text in [why, history, logs] {
            assert!(!text.contains(CANARY), "{text}");
        }
    }
}

#[tokio::test]
async fn a_server_that_keeps_its_old_form_redacts_a_fixed_argument_that_is_new() {
    let refusal = format!(r#"{{"code":-32000,"message":"no project {CANARY}"}}"#);
    let server = Scripted::modern().tool(Tool::defined("find", FIND).does(Act::Error(refusal))).start();
    let before = registry(&server, "views: {support: {servers: [tickets]}}");
    let gateway = Gateway::of(&before).env("PROJECT", CANARY).start().await;
    gateway.offers_to("find", &bearer(OPERATOR)).await;
    // The entry has a mistake from here on.
    let http = |line: &str| Registry::new().http("tickets", &server.url()).with(line);
    let keys = before.yaml().lines().last().expect("the keys").to_owned();
    gateway.rewrite(&http("timeot: 5").setting(GIVEN).setting(&keys).yaml());
    let reload = async || {
        let url = gateway.url("/api/v1/mcp/reload");
        client(&gateway, OPERATOR).to(&url).post("", &[]).await.json()
    };
    assert_eq!(reload().await["retained"], json!(["tickets"]));
    client(&gateway, BOUND).call("find", json!({"query": "b"})).await;
    let sent = server.seen_calling("tools/call").pop().expect("a call").body;
    assert!(sent.contains(CANARY), "{sent}");
    let history = rest(&gateway, OPERATOR, "/history").await.body;
    assert!(history.contains("no project") && !history.contains(CANARY), "{history}");
    assert_eq!(reload().await["retained"], json!(["tickets"]), "and it stays as it is");
}

#[tokio::test]
async fn tool_whose_given_arguments_do_not_fit_is_not_in_the_view() {
    let server = Scripted::modern().tool(Tool::defined("find", FIND)).tool(Tool::named("search")).start();
    for (change, reason) in [
        ("fixed_arguments: {projekt: a}", "no argument `projekt`; did you mean `project`?"),
        ("fixed_arguments: {project: 5}", "project has to be of the type string"),
        ("default_arguments: {limit: 51}", "limit is out of range"),
    ] {
        let views =
            format!("views: {{support: {{servers: [tickets], tools: {{tickets/find: {{{change}}}}}}}}}");
        let gateway = started(&server, &views).await;
        assert_eq!(names(&gateway, BOUND).await, ["search"], "{change}");
        assert!(
            client(&gateway, BOUND).call("find", json!({"query": "a"})).await.json()["error"].is_object()
        );
        let why = rest(&gateway, OPERATOR, "/why?tool=find&view=support").await.json()["tools"][0].clone();
        assert_eq!(why["setting"], "views.support.tools");
        assert!(why["advice"].to_string().contains(reason), "{why}");
        let warned = gateway.logs("the warning", |line| line["view"] == "support").await;
        assert!(warned[0].to_string().contains(reason), "{warned:?}");
        let checked = gateway.gateway().output(&["check", "--connect"]);
        let (code, out, err) = texts_of(&checked);
        assert!(code == Some(0) && err.contains(reason), "{out}{err}");
    }
    assert_eq!(server.runs("find"), 0);
    for (change, expected) in [
        ("{fixed_arguments: {a: 1}, default_arguments: {a: 2}}", "both fixed and a default"),
        ("{default_arguments: {a: \"${PATH}\"}}", "clients see a default"),
    ] {
        let yaml = registry(
            &server,
            &format!("views: {{support: {{servers: [tickets], tools: {{tickets/find: {change}}}}}}}"),
        );
        let (code, out, err) = texts_of(&Gateway::with_config(&yaml.yaml()).output(&["check"]));
        assert!(code == Some(2) && (out + &err).contains(expected), "{change}");
    }
}

/// A tool with a page, or one for that page alone.
fn app(name: &str, visibility: &[&str], page: Option<&str>) -> Tool {
    let ui = json!({"visibility": visibility, "resourceUri": page});
    let ui = if page.is_some() { ui } else { json!({"visibility": visibility}) };
    let definition = json!({"name": name, "inputSchema": {"type": "object"}, "_meta": {"ui": ui}});
    Tool::defined(name, &definition.to_string())
}

/// The tools that a client gets that shows apps.
async fn shown_to_apps(client: &Client, path: &str) -> Vec<String> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": client_info(),
        "io.modelcontextprotocol/clientCapabilities":
            {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}},
    });
    let body = client.envelope("tools/list", &json!({"_meta": meta}).to_string());
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];
    let mut names = client.to(path).post(&body, &headers).await.tool_names();
    names.sort();
    names
}

#[tokio::test]
async fn tool_for_apps_alone_is_listed_to_clients_that_show_apps() {
    let pages = r#"[{"uri":"ui://board","name":"board"},{"uri":"ui://map","name":"map"}]"#;
    let server = Scripted::modern()
        .tool(app("board", &["model", "app"], Some("ui://board")))
        .tool(app("move_card", &["app"], Some("ui://board")))
        .tool(app("refresh", &["app"], None))
        .tool(app("map", &["model"], Some("ui://map")))
        .tool(app("zoom", &["app"], Some("ui://map")))
        .tool(Tool::named("search"))
        .offers("resources", pages)
        .start();
    let views = "views:
  support: {allow: [\"tickets/board\"]}
  named: {servers: [tickets], deny: [\"tickets/board\", \"tickets/map\"]}
  narrow: {servers: [tickets], deny: [\"tickets/zoom\"]}";
    let gateway = started(&server, views).await;
    let (operator, bound) = (client(&gateway, OPERATOR), client(&gateway, BOUND));
    let whole = gateway.url("/mcp");
    let for_models = operator.modern("tools/list", json!({})).await;
    assert_eq!(names(&gateway, OPERATOR).await, ["board", "map", "search"]);
    assert_eq!(for_models.result()["cacheScope"], "private", "another client gets another list");
    assert_eq!(
        shown_to_apps(&operator, &whole).await,
        ["board", "map", "move_card", "refresh", "search", "zoom"]
    );
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/ui": {}}});
    let host = operator.legacy_with("2025-11-25", &capabilities).await;
    assert_eq!(
        host.request("tools/list", json!({})).await.result()["tools"].as_array().map(Vec::len),
        Some(6)
    );
    let listed = rest(&gateway, OPERATOR, "/tools").await.json();
    assert!(!listed.to_string().contains("move_card"), "programs give lists to models");

    // The app of the one tool of the view has all that it calls, and its page, and nothing else.
    assert_eq!(names(&gateway, BOUND).await, ["board"]);
    assert_eq!(shown_to_apps(&bound, &whole).await, ["board", "move_card", "refresh"]);
    let resources = bound.modern("resources/list", json!({})).await.result();
    assert_eq!(resources["resources"].as_array().map(Vec::len), Some(1), "{resources}");
    for (tool, is_there) in [("move_card", true), ("refresh", true), ("zoom", false), ("map", false)] {
        let called = bound.call(tool, json!({})).await.json();
        assert_eq!(called["result"].is_object(), is_there, "{tool}: {called}");
    }
    let near = bound.call("mov_card", json!({})).await.body;
    assert!(!near.contains("move_card"), "models read hints: {near}");
    // Without a tool that shows the app there is none of its tools.
    let named = client(&gateway, NAMED);
    assert_eq!(shown_to_apps(&named, &whole).await, ["search"]);
    assert!(named.call("refresh", json!({})).await.json()["error"].is_object());
    let why = rest(&gateway, OPERATOR, "/why?tool=zoom&view=named").await.json()["tools"][0].clone();
    assert!(why["advice"].to_string().contains("no tool that shows its app"), "{why}");
    let narrow = shown_to_apps(&operator, &gateway.url("/mcp/narrow")).await;
    assert_eq!(narrow, ["board", "map", "move_card", "refresh", "search"], "`deny` counts");
}

#[tokio::test]
async fn operators_learn_of_rules_that_match_nothing_and_of_texts_that_are_cut() {
    let long = json!({"name": "long", "description": "x".repeat(3_000), "inputSchema": {"type": "object"}});
    let server = Scripted::modern()
        .tool(Tool::named("search"))
        .tool(Tool::defined("long", &long.to_string()))
        .offers("resourceTemplates", r#"[{"uriTemplate":"test:///{path}","name":"t"}]"#)
        .start();
    let views = "views:
  support:
    allow: [\"tickets/sea*\", \"tickets/test:///public/*\", \"nowhere/*\"]
    deny: [\"tickets/serach\"]
    tools: {tickets/lnog: {title: Long}}
  named: {servers: [tickets]}";
    let gateway = started(&server, views).await;
    let expected = [
        "`deny` has `tickets/serach` in line",
        "which matches nothing; did you mean `search`?",
        "`allow` has `nowhere/*` in line",
        "there is no such server",
        "`tools` has `tickets/lnog`, and the server has no such tool; did you mean `long`?",
    ];
    let is_warning = |line: &Value| line["view"] == "support";
    let warned = eventually("all are logged", async || {
        let lines: Vec<_> = gateway.log().into_iter().filter(is_warning).collect();
        (lines.len() == 3).then_some(lines)
    })
    .await;
    let logged: String =
        warned.iter().map(|line| line["reason"].as_str().unwrap_or_default().to_owned()).collect();
    let (code, out, err) = texts_of(&gateway.gateway().output(&["check", "--connect"]));
    assert_eq!(code, Some(0), "{out}{err}");
    let (_, doctor, _) = texts_of(&gateway.gateway().output(&["doctor"]));
    for text in expected {
        assert!(logged.contains(text), "{text}: {logged}");
        assert!(err.contains(text) && doctor.contains(text), "{text}: {err}{doctor}");
    }
    assert!(!logged.contains("sea*") && !logged.contains("public"), "{logged}");
    let cut = "tickets: tools have descriptions of more than 2048 bytes";
    assert!(err.contains(cut) && doctor.contains(cut), "{err}{doctor}");

    // A reload says it once, and names keys without a view.
    gateway.rewrite(&registry(&server, &views.replace("  named: {", "  nambed: {")).yaml());
    let reload = gateway.url("/api/v1/mcp/reload");
    let reloaded = client(&gateway, OPERATOR).to(&reload).post("", &[]).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.body);
    gateway
        .logs("the key without a view", |line| {
            line["message"].to_string().contains("the key `named` sees nothing")
        })
        .await;
    assert_eq!(gateway.log().into_iter().filter(is_warning).count(), 3);
    let near = rest(&gateway, OPERATOR, "/why?tool=search&view=named").await.json();
    assert!(near["code"] == "view_not_found" && near["hint"].to_string().contains("nambed"), "{near}");
    let bound = rest(&gateway, BOUND, "/tools?view=named").await.body;
    assert!(!bound.contains("nambed"), "{bound}");
}

#[test]
fn check_warns_of_instructions_that_are_too_long_together() {
    // Merged, each has a title of 6 bytes, and 2 bytes are between both: 2048 bytes, and one more.
    for (length, is_long) in [(1_017, false), (1_018, true)] {
        let telling = |length: usize| {
            let discovered = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "instructions": "x".repeat(length), "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}});
            let results = vec![discovered.to_string(); 20];
            Scripted::modern().tool(Tool::named("t")).answers("server/discover", results).start()
        };
        let (a, b) = (telling(1_017), telling(length));
        let views = "views: {both: {servers: [a, b]}, one: {servers: [a]}, own: {servers: [a, b], instructions: short}}";
        let registry = Registry::new().http("a", &a.url()).http("b", &b.url()).setting(views);
        let (code, out, err) = texts_of(&Gateway::of(&registry).output(&["check", "--connect"]));
        assert_eq!(code, Some(0), "{out}{err}");
        let warned: Vec<&str> = err.lines().filter(|line| line.contains("the instructions have")).collect();
        let warning = |place: &str| {
            format!(
                "warning: {place}: the instructions have 2049 bytes, and clients such as Claude Code cut what is longer than 2048"
            )
        };
        let expected = if is_long { vec![warning("/mcp"), warning("/mcp/both")] } else { Vec::new() };
        assert_eq!(warned, expected, "{err}");
    }
}

#[tokio::test]
async fn key_for_a_view_that_is_not_there_is_named_at_once() {
    let yaml = "mcp_servers: {}\nviews: {support: {servers: [\"*\"]}}\nserver: {auth_mode: api_key, keys_file: keys.json}\n";
    let gateway = Gateway::with_config(yaml);
    let add = |name: &str, view: &str| {
        texts_of(&gateway.output(&["key", "add", name, "--role", "caller", "--view", view]))
    };
    let (code, _, err) = add("one", "suport");
    assert!(
        code == Some(0) && err.contains("there is no view `suport`") && err.contains("`support`?"),
        "{err}"
    );
    let (code, _, err) = add("two", "support");
    assert!(code == Some(0) && !err.contains("there is no view"), "{err}");
}

//! The tool `login_to_NAME` of a server that waits for its first login, seen by clients that know only MCP.

use serde_json::{Value, json};

use crate::oauth::{ALICE, BOB, OPERATOR, World, client_at, keys, log_in_as, opened, with_url, world};
use crate::support::authorization_server::AuthorizationServer;
use crate::support::client::{Client, LEGACY, Session};
use crate::support::gateway::Running;
use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry, eventually};

const TOOL: &str = "login_to_notes";
const ENDPOINTS: [&str; 2] = ["/mcp", "/mcp/notes"];

/// The first link in `text`.
fn link(text: &str) -> String {
    let begin = text.find("http://").unwrap_or_else(|| panic!("no link: {text}"));
    text[begin..].split([' ', '\n', '\\', '"']).next().expect("a link").to_owned()
}

/// Waits until the server waits for a login.
async fn waiting(world: &World, key: &str) {
    let rest = client_at(world, "/api/v1/mcp/servers/notes", key);
    eventually("a login is required", async || {
        (rest.bare(http::Method::GET, &[]).await.json()["state"] == "login_required").then_some(())
    })
    .await;
}

fn servers() -> [Scripted; 2] {
    [Scripted::modern(), Scripted::legacy()]
}

#[tokio::test]
async fn a_modern_client_comes_from_the_login_tool_to_a_working_call() {
    for (server, path) in
        servers().into_iter().zip(ENDPOINTS).chain(servers().into_iter().rev().zip(ENDPOINTS))
    {
        let world = world(server, &["ada"], ("", "")).await;
        waiting(&world, "none").await;
        let client = Client::at(&world.gateway.url(path));
        let listed = client.modern("tools/list", json!({})).await;
        assert_eq!(listed.tool_names(), [TOOL], "{path}");
        let (list, tool) = (listed.result(), listed.result()["tools"][0].clone());
        assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(0), &json!("private")), "{list}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
        let called = client.modern("tools/call", json!({"name": TOOL, "arguments": {}})).await;
        assert_eq!(called.result()["isError"], Value::Null, "{called:?}");
        opened(&link(&called.text())).await;
        world.gateway.offers(&["a"]).await;
        assert_eq!(client.modern("tools/list", json!({})).await.tool_names(), ["a"], "{path}");
        let answer = client.modern("tools/call", json!({"name": "a", "arguments": {}})).await;
        assert_eq!(answer.result()["isError"], Value::Null, "{answer:?}");
        let late = client.modern("tools/call", json!({"name": TOOL, "arguments": {}})).await;
        assert!(late.text().contains("logged in to notes"), "{late:?}");
        assert!(world.server.seen_calling("tools/call").iter().all(|seen| !seen.body.contains(TOOL)));
    }
}

#[tokio::test]
async fn a_legacy_session_hears_that_the_tools_of_the_server_took_the_place_of_the_login_tool() {
    for (server, path) in servers().into_iter().zip(ENDPOINTS) {
        let world = world(server, &["ada"], ("", "")).await;
        waiting(&world, "none").await;
        let session = Client::at(&world.gateway.url(path)).legacy().await;
        let mut stream = session.client.listen().await;
        assert_eq!(session.request("tools/list", json!({})).await.tool_names(), [TOOL], "{path}");
        let called = session.call(TOOL, json!({})).await;
        assert_eq!(called.result()["isError"], Value::Null, "{called:?}");
        opened(&link(&called.text())).await;
        hears_of_tools(&mut stream).await;
        eventually("the tools of the server", async || {
            (session.request("tools/list", json!({})).await.tool_names() == ["a"]).then_some(())
        })
        .await;
        let answer = session.call("a", json!({})).await;
        assert_eq!(answer.result()["isError"], Value::Null, "{answer:?}");
    }
}

async fn hears_of_tools(stream: &mut crate::support::client::Stream) {
    loop {
        let message = stream.next().await.expect("the stream stays open");
        if message["method"] == "notifications/tools/list_changed" {
            return;
        }
    }
}

#[tokio::test]
async fn clients_that_can_open_pages_are_elicited_and_their_repeated_call_succeeds() {
    for path in ENDPOINTS {
        let world = world(Scripted::modern(), &["ada"], ("", "")).await;
        waiting(&world, "none").await;
        let client = Client::at(&world.gateway.url(path));
        let capabilities = json!({"elicitation": {"url": {}}});
        let session = client.legacy_with(LEGACY, &capabilities).await;
        let error = session.call(TOOL, json!({})).await.error();
        assert_eq!(error["code"], -32042, "{error}");

        let asked = client.modern("tools/call", with_url(TOOL, &json!({}))).await.result();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let answers = |action: &str| {
            let answer = json!({"login": {"action": action}});
            with_url(TOOL, &json!({"requestState": asked["requestState"], "inputResponses": answer}))
        };
        let declined = client.modern("tools/call", answers("decline")).await;
        assert!(declined.text().contains("/oauth/start?login="), "{declined:?}");
        let url = asked["inputRequests"]["login"]["params"]["url"].as_str().expect("a URL").to_owned();
        let repeated = client.modern("tools/call", answers("accept"));
        let (done, ()) = tokio::join!(repeated, opened(&url));
        assert!(done.text().contains("logged in to notes"), "{done:?}");
        let again = session.call(TOOL, json!({})).await;
        assert!(again.text().contains("logged in to notes"), "{again:?}");
        assert_eq!(client.modern("tools/list", json!({})).await.tool_names(), ["a"]);
    }
}

#[tokio::test]
async fn each_principal_sees_the_tool_until_its_own_login() {
    for (server, path) in servers().into_iter().zip(ENDPOINTS) {
        let world = world(server, &["ada", "grace"], (", per: principal", &keys())).await;
        waiting(&world, OPERATOR).await;
        let [alice, bob] = [ALICE, BOB].map(|key| client_at(&world, path, key));
        for client in [&alice, &bob] {
            assert_eq!(client.modern("tools/list", json!({})).await.tool_names(), [TOOL], "{path}");
        }
        let session: Session = alice.legacy().await;
        let mut stream = session.client.listen().await;
        assert_eq!(session.request("tools/list", json!({})).await.tool_names(), [TOOL], "{path}");
        let url = link(&session.call(TOOL, json!({})).await.text());
        let stranger = crate::support::browser::Browser::new();
        let refused = stranger.open(&url).await;
        let refused = stranger.submit(&refused, &[("credential", BOB)]).await;
        assert!(refused.text.contains("not yours"), "{refused:?}");

        log_in_as(&world, ALICE).await;
        hears_of_tools(&mut stream).await;
        eventually("the tools of the principal", async || {
            (session.request("tools/list", json!({})).await.tool_names() == ["a"]).then_some(())
        })
        .await;
        let late = session.call(TOOL, json!({})).await;
        assert!(late.text().contains("logged in to notes"), "{late:?}");
        assert_eq!(bob.modern("tools/list", json!({})).await.tool_names(), [TOOL], "{path}");
        let out = client_at(&world, "/api/v1/mcp/servers/notes/login", ALICE);
        out.bare(http::Method::DELETE, &[]).await;
        eventually("the login tool again", async || {
            (alice.modern("tools/list", json!({})).await.tool_names() == [TOOL]).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn callers_who_may_not_log_in_for_all_hear_who_may() {
    let world = world(Scripted::modern(), &["ada"], ("", &keys())).await;
    waiting(&world, OPERATOR).await;
    for path in ENDPOINTS {
        let client = client_at(&world, path, ALICE);
        assert_eq!(client.modern("tools/list", json!({})).await.tool_names(), [TOOL]);
        for params in [json!({"name": TOOL, "arguments": {}}), with_url(TOOL, &json!({}))] {
            let refused = client.modern("tools/call", params).await;
            assert_eq!(refused.result()["isError"], true, "{refused:?}");
            assert!(refused.text().contains("superuser"), "{refused:?}");
            assert!(!format!("{refused:?}").contains("/oauth/start"), "{refused:?}");
        }
        let told = instructions(&client, &json!({"elicitation": {"url": {}}})).await;
        assert!(told.contains("superuser") && !told.contains("/oauth/start"), "{told}");
        let told = instructions(&client_at(&world, path, OPERATOR), &json!({})).await;
        assert!(told.contains("notes: http://") && told.contains("/oauth/start"), "{told}");
    }
}

/// The instructions for a legacy client with `capabilities`.
async fn instructions(client: &Client, capabilities: &Value) -> String {
    let session = client.legacy_with(LEGACY, capabilities).await;
    session.server["instructions"].as_str().unwrap_or_default().to_owned()
}

/// The login page of the first server that `route` answers about.
async fn login_url(world: &World, route: &str, key: &str) -> Value {
    let answer = client_at(world, route, key).bare(http::Method::GET, &[]).await.json();
    let server = answer["servers"].get(0).cloned().unwrap_or(answer);
    server["login_url"].clone()
}

#[tokio::test]
async fn instructions_and_status_have_the_link_while_a_server_waits() {
    let world = world(Scripted::modern(), &["ada"], ("", &keys())).await;
    waiting(&world, OPERATOR).await;
    let client = client_at(&world, "/mcp", OPERATOR);
    let told = client.modern("server/discover", json!({})).await.result()["instructions"].clone();
    assert!(told.as_str().is_some_and(|text| text.contains("/oauth/start?login=")), "{told}");
    let routes = ["/api/v1/mcp/servers", "/api/v1/mcp/servers/notes", "/api/v1/mcp/health"];
    for route in routes {
        let url = login_url(&world, route, OPERATOR).await;
        assert!(url.as_str().is_some_and(|url| url.contains("/oauth/start?login=")), "{route}: {url}");
        assert_eq!(login_url(&world, route, ALICE).await, Value::Null, "{route}: alice may not log in");
    }
    let shown = status(&world.gateway).await;
    assert!(shown.contains("notes waits for a login: open http://"), "{shown}");

    log_in_as(&world, OPERATOR).await;
    world.gateway.offers_to("a", &format!("Bearer {OPERATOR}")).await;
    let told = client.modern("server/discover", json!({})).await.result();
    assert_eq!(told["instructions"], Value::Null, "{told}");
    for route in routes {
        assert_eq!(login_url(&world, route, OPERATOR).await, Value::Null, "{route}");
    }
}

/// Runs `switchyard status` as an operator.
async fn status(gateway: &Running) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_switchyard"));
    command.arg("status").env_clear().env("SWITCHYARD_URL", gateway.url("")).env("SWITCHYARD_KEY", OPERATOR);
    let output = tokio::task::spawn_blocking(move || command.output().expect("it runs"));
    let output = output.await.expect("it ends");
    String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8")
}

#[tokio::test]
async fn programs_get_the_link_over_rest() {
    let world = world(Scripted::modern(), &["ada"], ("", "")).await;
    waiting(&world, "none").await;
    // The state of a server is shown a moment before the catalog that follows from it.
    let listed =
        async || (world.gateway.get("/tools").await.json()["tools"][0]["name"] == TOOL).then_some(());
    eventually("the tool in the list", listed).await;
    for body in
        [json!({"tool": TOOL, "arguments": {}}), json!({"server": "notes", "tool": TOOL, "arguments": {}})]
    {
        let called = world.gateway.post("/call", &body.to_string()).await.json();
        assert_eq!((&called["success"], &called["server"]), (&json!(true), &json!("notes")), "{called}");
        assert!(called["content"][0]["text"].as_str().expect("a text").contains("/oauth/start"), "{called}");
        let calls = world.gateway.mcp().to(&world.gateway.url("/api/v1/mcp/call"));
        let mut stream = calls.post_stream(&body.to_string(), &[("accept", "text/event-stream")]).await;
        let mut last = stream.event().await.expect("an event");
        while let Some(event) = stream.event().await {
            last = event;
        }
        let streamed: Value = serde_json::from_str(&last.data).expect("JSON");
        assert_eq!((last.name.as_str(), &streamed["success"]), ("result", &json!(true)), "{streamed}");
        assert_eq!((&streamed["tool"], &streamed["server"]), (&called["tool"], &called["server"]));
        assert!(link(&streamed["content"][0]["text"].to_string()).contains("/oauth/start"), "{streamed}");
    }
    let called = world.gateway.post("/call", &json!({"tool": TOOL, "arguments": {}}).to_string()).await;
    opened(&link(&called.json()["content"][0]["text"].to_string())).await;
    world.gateway.offers(&["a"]).await;
    let late = world.gateway.post("/call", &json!({"tool": TOOL, "arguments": {}}).to_string()).await.json();
    assert!(late["data"].to_string().contains("logged in to notes"), "{late}");
}

#[tokio::test]
async fn principals_with_a_login_do_not_see_the_tool_of_a_server_that_is_down() {
    let mut world = world(Scripted::modern(), &["ada"], (", per: principal", &keys())).await;
    waiting(&world, OPERATOR).await;
    log_in_as(&world, ALICE).await;
    world.server = Scripted::modern().start(); // ends the one of the gateway
    for (key, tools) in [(BOB, vec![TOOL]), (ALICE, vec![])] {
        assert_eq!(
            client_at(&world, "/mcp", key).modern("tools/list", json!({})).await.tool_names(),
            tools,
            "{key}"
        );
        for route in ["tools", "tools?limit=5", "servers/notes/tools"] {
            let rest = client_at(&world, &format!("/api/v1/mcp/{route}"), key);
            let listed = rest.bare(http::Method::GET, &[]).await.json();
            let listed: Vec<&str> = listed["tools"]
                .as_array()
                .expect("tools")
                .iter()
                .filter_map(|tool| tool["name"].as_str())
                .collect();
            assert_eq!(listed, tools, "{key}, {route}");
        }
        let rest = client_at(&world, &format!("/api/v1/mcp/tools/{TOOL}"), key);
        let status = rest.bare(http::Method::GET, &[]).await.status;
        assert_eq!(status, if tools.is_empty() { 404 } else { 200 }, "{key}");
    }
}

#[tokio::test]
async fn a_real_tool_keeps_the_name_and_is_called_under_it() {
    let login_service = AuthorizationServer::start();
    login_service.accounts(&["ada"]);
    let server = Scripted::modern().tool(Tool::named("a")).start();
    server.wants_token("another");
    let other = Scripted::modern().tool(Tool::named(TOOL)).start();
    let auth = format!("auth: {{oauth: {{issuer: \"{}\"}}}}", login_service.issuer());
    let registry = Registry::new().http("other", &other.url()).http("notes", &server.url()).with(&auth);
    let gateway = Gateway::of(&registry).start().await;
    let client = gateway.mcp();
    let names = eventually("both tools", async || {
        let names = client.modern("tools/list", json!({})).await.tool_names();
        (names.len() == 2).then_some(names)
    })
    .await;
    let mut own = names.clone();
    own.retain(|name| !name.contains("other"));
    for name in &names {
        let text = client.modern("tools/call", json!({"name": name, "arguments": {}})).await.text();
        assert_eq!(text.contains("/oauth/start"), *name == format!("notes__{TOOL}"), "{name}: {text}");
    }
    assert!(names.contains(&format!("notes__{TOOL}")), "{names:?}");
    assert_eq!(gateway.mcp_of("notes").modern("tools/list", json!({})).await.tool_names(), [TOOL]);
}

#[tokio::test]
async fn the_name_fits_clients_and_the_operator_can_hide_it() {
    for mode in ["auto", "prefixed", "verbatim"] {
        names_fit(mode).await;
    }
}

async fn names_fit(mode: &str) {
    let login_service = AuthorizationServer::start();
    let server = Scripted::modern().tool(Tool::named("a")).start();
    server.wants_token("another");
    let auth = format!("auth: {{oauth: {{issuer: \"{}\"}}}}", login_service.issuer());
    let long = "n".repeat(63);
    let registry = Registry::new().http(&format!("{long}a"), &server.url()).with(&auth);
    let registry = registry.http(&format!("{long}b"), &server.url()).with(&auth);
    let registry = registry.http("a.b", &server.url()).with(&auth);
    let registry = registry.http("a_b", &server.url()).with(&auth).with("tools: {allow: [a]}");
    let registry =
        registry.http("hidden", &server.url()).with(&auth).with("tools: {deny: [login_to_hidden]}");
    let registry = registry.setting(&format!("tool_names: {mode}"));
    let gateway = Gateway::of(&registry).start().await;
    let client = gateway.mcp();
    let names = eventually("the login tools", async || {
        let names = client.modern("tools/list", json!({})).await.tool_names();
        (names.len() >= 4).then_some(names)
    })
    .await;
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!((distinct.len(), names.len()), (4, 4), "{names:?}");
    let fits = |name: &String| {
        name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    assert!(names.iter().all(fits), "{names:?}");
    for name in &names {
        let called = client.modern("tools/call", json!({"name": name, "arguments": {}})).await;
        assert!(called.text().contains("/oauth/start"), "{name}: {called:?}");
    }
    let hidden = client.modern("tools/call", json!({"name": "login_to_hidden", "arguments": {}})).await;
    assert!(!format!("{hidden:?}").contains("/oauth/start"), "{hidden:?}");
}

/// A client on standard input and output comes from the tool to a working call, without another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_on_standard_input_and_output_logs_in_and_calls() {
    for is_modern in [false, true] {
        let login_service = AuthorizationServer::start();
        login_service.accounts(&["ada"]);
        let server = Scripted::modern().tool(Tool::named("a")).start();
        server.wants_token("canary-ada");
        let auth = format!("auth: {{oauth: {{issuer: \"{}\"}}}}", login_service.issuer());
        let registry = Registry::new().http("notes", &server.url()).with(&auth);
        let mut session = Gateway::of(&registry).start_stdio();
        if !is_modern {
            session.initialize();
        }
        let mut request = |method: &str, params: Value| {
            if is_modern { session.modern(method, params) } else { session.request(method, &params) }
        };
        let names = |listed: &Value| listed["result"]["tools"].as_array().cloned().unwrap_or_default();
        let listed = eventually("the login tool", async || {
            let listed = names(&request("tools/list", json!({})));
            (!listed.is_empty()).then_some(listed)
        })
        .await;
        assert_eq!(listed[0]["name"], TOOL, "{listed:?}");
        let called = request("tools/call", json!({"name": TOOL, "arguments": {}}));
        let text = called["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{called}"));
        opened(&link(text)).await;
        eventually("the tools of the server", async || {
            let listed = names(&request("tools/list", json!({})));
            listed.first().is_some_and(|tool| tool["name"] == "a").then_some(())
        })
        .await;
        let called = request("tools/call", json!({"name": "a", "arguments": {}}));
        assert_eq!(called["result"]["isError"], Value::Null, "{called}");
    }
}

//! Lists with definitions that clients refuse, lists that fail, and names that model services refuse.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::gateway::Running;
use crate::support::listing::{self, Listed, list};
use crate::support::{Gateway, Registry, eventually};
use testkit::served::Served;

fn tool(name: &str) -> Value {
    json!({"name": name, "description": name, "inputSchema": {"type": "object"}})
}

fn tools(definitions: &Value) -> Served {
    let tools = definitions.clone();
    listing::legacy(json!({"tools": {}}), move |method, params| match method {
        "tools/list" => Some(list("tools", &tools)),
        "tools/call" => {
            let text = params["name"].as_str().unwrap_or_default();
            Some(Listed::Result(json!({"content": [{"type": "text", "text": text}]}).to_string()))
        }
        _ => None,
    })
}

fn mcp(server: &Served) -> String {
    format!("{}/mcp", server.url())
}

async fn problems(gateway: &Running, server: &str) -> String {
    gateway.get(&format!("/servers/{server}")).await.json()["offer_problems"].to_string()
}

/// The tools that clients of both eras get.
async fn listed(gateway: &Running, scope: Option<&str>) -> [Vec<Value>; 2] {
    let client = || scope.map_or_else(|| gateway.mcp(), |server| gateway.mcp_of(server));
    let legacy = client().legacy().await.request("tools/list", json!({})).await.json();
    let modern = client().modern("tools/list", json!({})).await.json();
    [legacy, modern].map(|answer| answer["result"]["tools"].as_array().expect("tools").clone())
}

// Issue 33, item 1: before, `inputSchema` passed as it was.
#[tokio::test]
async fn a_bad_definition_costs_only_itself_in_every_list() {
    let bad = json!([
        {"name": "missing"}, {"name": "null", "inputSchema": null}, {"name": "php", "inputSchema": []},
        {"name": "text", "inputSchema": {"type": "string"}}, {"name": "any", "inputSchema": {"anyOf": [{"type": "object"}]}},
        {"name": "properties", "inputSchema": {"type": "object", "properties": []}},
        {"name": "boolean", "inputSchema": {"type": "object", "properties": {"a": true}}},
        {"name": "int", "inputSchema": {"type": "object", "properties": {"a": {"type": "int"}}}},
        {"name": "output", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "properties": {"a": {"type": "int"}}}},
        {"name": "members", "inputSchema": {"type": "object"}, "description": null, "icons": "x", "_meta": 5, "annotations": []},
        tool("fine"),
    ]);
    for sharing in ["shared", "per_session"] {
        let (odd, good) = (tools(&bad), tools(&json!([tool("good")])));
        let registry = Registry::new().http("odd", &mcp(&odd)).with(&format!("sharing: {sharing}"));
        let gateway = Gateway::of(&registry.http("good", &mcp(&good))).start().await;
        gateway.offers(&["good", "fine"]).await;
        for (scope, count) in [(None, 11), (Some("odd"), 10)] {
            for (era, tools) in listed(&gateway, scope).await.into_iter().enumerate() {
                let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect();
                assert!(tools.len() == count && !names.contains(&"text"), "{sharing} {scope:?}: {names:?}");
                for tool in &tools {
                    assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
                    let properties = tool["inputSchema"]["properties"].as_object();
                    let is_object = |value: &Value| value.is_object() || era == 1 && value.is_boolean();
                    assert!(properties.is_none_or(|all| all.values().all(is_object)), "{tool}");
                    assert!(
                        ["outputSchema", "icons", "_meta"].iter().all(|name| tool.get(name).is_none()),
                        "{tool}"
                    );
                }
            }
        }
        let named = problems(&gateway, "odd").await;
        for tool in ["missing", "null", "php", "text", "any", "properties", "int", "output", "members"] {
            assert!(named.contains(&format!(r#"the tool \"{tool}\""#)), "{tool}: {named}");
        }
        assert!(!named.contains("fine") && !named.contains("boolean"), "{named}");
        let checked = gateway.gateway().output(&["check", "--connect"]);
        let text = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(text.contains("was repaired: inputSchema is missing"), "{text}");
        let doctor = gateway.gateway().output(&["doctor"]);
        assert!(String::from_utf8_lossy(&doctor.stdout).contains("inputSchema is missing"));
    }
}

#[tokio::test]
async fn null_members_of_other_lists_do_not_reach_clients() {
    let lists = |method: &str, _: &Value| {
        let items = match method {
            "resources/list" => {
                json!([{"uri": "a://1", "name": "r", "description": null, "size": null, "_meta": null}, {"uri": "a://2", "name": null}])
            }
            "resources/templates/list" => {
                json!([{"uriTemplate": "a://t/{x}", "name": "t", "mimeType": null}])
            }
            "prompts/list" => {
                json!([{"name": "p", "arguments": null}, {"name": "q", "arguments": [{"name": "x", "required": null}, {}]}])
            }
            _ => json!([]),
        };
        let members = [
            ("resources/templates", "resourceTemplates"),
            ("resources", "resources"),
            ("prompts", "prompts"),
            ("tools", "tools"),
        ];
        members.iter().find(|(prefix, _)| method.starts_with(prefix)).map(|(_, member)| list(member, &items))
    };
    let capabilities = json!({"tools": {}, "resources": {}, "prompts": {}, "logging": null});
    let (old, new) = (listing::legacy(capabilities.clone(), lists), listing::modern(capabilities, lists));
    for server in [old, new] {
        let gateway = Gateway::of(&Registry::new().http("a", &mcp(&server))).start().await;
        eventually("it is ready", async || {
            let state = gateway.get("/servers/a").await.json();
            (state["state"] == "ready").then_some(())
        })
        .await;
        for client in [gateway.mcp(), gateway.mcp_of("a")] {
            let session = client.legacy().await;
            for method in ["resources/list", "resources/templates/list", "prompts/list"] {
                let legacy = session.request(method, json!({})).await.json();
                let modern = client.modern(method, json!({})).await.json();
                for answer in [legacy, modern] {
                    assert!(!answer["result"].to_string().contains("null"), "{method}: {answer}");
                }
            }
        }
        assert!(problems(&gateway, "a").await.contains("its capabilities were repaired"));
    }
}

// Issue 33, item 3: before, the server was `failed`, or `connecting` for 10 s.
#[tokio::test]
async fn a_side_list_that_fails_does_not_delay_the_tools() {
    let failures = [
        Listed::Silence,
        Listed::Refused(-32603, "not now"),
        Listed::Other(500, "text/plain", "oops"),
        Listed::Other(200, "text/html", "<html>a login page</html>"),
        Listed::Other(200, "application/json", r#"{"jsonrpc": "2.0", "id": "#),
        Listed::Result(r#"{"prompts": {}}"#.to_owned()),
    ];
    for sharing in ["shared", "per_session"] {
        for (number, failure) in failures.clone().into_iter().enumerate() {
            let answer = move |method: &str, _: &Value| match method {
                "tools/list" => Some(list("tools", &json!([tool("echo")]))),
                "resources/list" => Some(list("resources", &json!([{"uri": "a://1", "name": "r"}]))),
                "resources/templates/list" => Some(list("resourceTemplates", &json!([]))),
                "prompts/list" => Some(failure.clone()),
                _ => None,
            };
            let server = listing::legacy(json!({"tools": {}, "resources": {}, "prompts": {}}), answer);
            let registry = Registry::new().http("a", &mcp(&server)).with(&format!("sharing: {sharing}"));
            let gateway = Gateway::of(&registry).start().await;
            let offered = tokio::time::timeout(Duration::from_secs(6), gateway.offers(&["echo"])).await;
            assert!(offered.is_ok(), "{sharing} {number}: {}", problems(&gateway, "a").await);
            let session = gateway.mcp().legacy().await;
            let first =
                tokio::time::timeout(Duration::from_secs(6), session.request("tools/list", json!({})));
            let tools = first.await.expect("in time").json();
            assert_eq!(tools["result"]["tools"][0]["name"], "echo", "{sharing} {number}: {tools}");
            let named = eventually("the problem is named", async || {
                let named = problems(&gateway, "a").await;
                named.contains("its list of prompts is left out").then_some(named)
            })
            .await;
            let resources = session.request("resources/list", json!({})).await.json();
            assert_eq!(resources["result"]["resources"][0]["uri"], "a://1", "{named}");
        }
    }
}

// Issue 33, item 9: before, dots passed.
#[tokio::test]
async fn offered_names_fit_every_client_and_own_names_are_understood() {
    let long = "very.long.".repeat(20);
    let own = ["calendar.list", "mail.send", "mail_send", "a b", "a/b", "löschen", "..", "x.y.z", &long];
    let definitions: Vec<Value> = own.iter().map(|name| tool(name)).collect();
    let server = tools(&json!(definitions));
    let is_safe = |name: &str| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    for mode in ["auto", "prefixed", "verbatim"] {
        let registry = Registry::new().http("dotted", &mcp(&server)).setting(&format!("tool_names: {mode}"));
        let gateway = Gateway::of(&registry).start().await;
        let offered = eventually("the tools are offered", async || {
            let [tools, _] = listed(&gateway, None).await;
            (tools.len() == own.len()).then_some(tools)
        })
        .await;
        let names: Vec<&str> = offered.iter().map(|tool| tool["name"].as_str().expect("a name")).collect();
        if mode == "verbatim" {
            assert_eq!(names, own);
            continue;
        }
        assert!(names.iter().all(|name| is_safe(name)), "{mode}: {names:?}");
        let first = if mode == "auto" { "calendar_list" } else { "dotted__calendar_list" };
        assert_eq!(names[0], first);
        for (name, own) in names.iter().zip(own) {
            for spelling in [(*name).to_owned(), own.to_owned(), format!("dotted__{own}")] {
                assert_eq!(gateway.mcp().call(&spelling, json!({})).await.text(), own, "{spelling}");
            }
        }
        let [alone, _] = listed(&gateway, Some("dotted")).await;
        assert!(alone.iter().all(|tool| is_safe(tool["name"].as_str().expect("a name"))), "{alone:?}");
        assert_eq!(alone[0]["name"], "calendar_list");
        assert_eq!(gateway.mcp_of("dotted").call("calendar.list", json!({})).await.text(), "calendar.list");
    }
}

#[tokio::test]
async fn a_renamed_tool_may_have_a_dot_too() {
    let server = tools(&json!([tool("a"), tool("b")]));
    let registry = Registry::new().http("s", &mcp(&server)).with("tools: {rename: {a: x.y}}");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["x_y", "b"]).await;
    assert_eq!(gateway.mcp().call("x.y", json!({})).await.text(), "a");
}

// Issue 33, item 12: before, "the answer is not a valid MCP message: it refused to list its tools".
#[tokio::test]
async fn a_server_that_refuses_its_list_is_described_as_such() {
    for (code, message) in [(-32603, "not now"), (-32001, "log in first"), (-32602, "unknown cursor")] {
        let server = listing::legacy(json!({"tools": {}}), move |method, _| {
            (method == "tools/list").then_some(Listed::Refused(code, message))
        });
        let gateway = Gateway::of(&Registry::new().http("a", &mcp(&server))).start().await;
        let error = eventually("it failed", async || {
            let status = gateway.get("/servers/a").await.json();
            status["last_error"].as_str().map(str::to_owned)
        })
        .await;
        assert!(error.contains("it refused to list its tools") && error.contains(message), "{error}");
        assert!(!error.contains("not a valid MCP message"), "{error}");
    }
}

#[tokio::test]
async fn the_error_for_an_unknown_tool_does_not_list_all_tools() {
    let definitions: Vec<Value> = (0..300).map(|number| tool(&format!("tool_{number}_of_many"))).collect();
    let server = tools(&json!(definitions));
    let gateway = Gateway::of(&Registry::new().http("many", &mcp(&server))).start().await;
    gateway.offers(&["tool_7_of_many"]).await;
    for name in ["nothing_like_it", "tool_77_of_manny", "many__nothing"] {
        let legacy = gateway.mcp().legacy().await.call(name, json!({})).await.json().to_string();
        let modern = gateway.mcp().call(name, json!({})).await.json().to_string();
        let body = json!({"tool": name, "arguments": {}}).to_string();
        let rest = gateway.post("/call", &body).await.json().to_string();
        for answer in [legacy, modern, rest] {
            assert!(answer.contains(name) && answer.matches("_of_many").count() <= 8, "{answer}");
            assert!(answer.len() < 2_000 && !answer.contains("available"), "{answer}");
        }
    }
}

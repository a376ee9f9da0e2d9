//! Headers of clients that reach a server (`forward_headers`): which requests have them, and which never do.

use futures_util::stream::{self, StreamExt as _};
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use crate::messages::texts_of;
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Answer, Client, Gateway, Registry, Running, eventually};

const FORWARD: &str = "forward_headers: [X-Tenant, x-trace]";
const READ_ONLY: &str = r#"{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"idempotentHint":true}}"#;

/// A server that gets headers of clients, and one that gets none.
fn registry(named: &Server, other: &Server) -> Registry {
    let registry = Registry::new();
    let registry = if named.url().ends_with("/sse") {
        registry.sse("named", &named.url())
    } else {
        registry.http("named", &named.url())
    };
    registry.with(FORWARD).http("other", &other.url())
}

async fn started(named: &Server, other: &Server) -> Running {
    let gateway = Gateway::of(&registry(named, other)).start().await;
    gateway.offers(&["a", "b"]).await;
    gateway
}

fn other() -> Server {
    Scripted::modern().tool(Tool::named("b")).start()
}

fn of_tenant(gateway: &Running, tenant: &str) -> Client {
    gateway.mcp().with_header("x-tenant", tenant).with_header("x-private", "canary-private")
}

async fn over_rest(gateway: &Running, tenant: &str, tool: &str, arguments: &Value, accept: &str) -> Answer {
    let body = json!({"tool": tool, "arguments": arguments});
    let rest = of_tenant(gateway, tenant).to(&gateway.url("/api/v1/mcp/call"));
    rest.post(&body.to_string(), &[("accept", accept)]).await
}

/// The tenant of each request that has one.
fn tenants(server: &Server, method: &str) -> Vec<Option<String>> {
    let seen = server.seen_calling(method).into_iter();
    seen.map(|seen| seen.header("x-tenant").map(str::to_owned)).collect()
}

// RULES S17
#[tokio::test]
async fn named_headers_reach_their_server_with_each_call_and_nothing_else_does() {
    const CALLS: usize = 200;
    for server in [Scripted::modern(), Scripted::legacy(), Scripted::sse()] {
        let (named, other) = (server.tool(Tool::named("a")).start(), other());
        let gateway = started(&named, &other).await;
        let sessions = [of_tenant(&gateway, "t0").legacy().await, of_tenant(&gateway, "t1").legacy().await];
        let one = async |number: usize| {
            let tenant = format!("t{}", number % 2);
            let arguments = json!({"tenant": tenant, "n": number});
            for tool in ["a", "b"] {
                match number / 2 % 4 {
                    0 => of_tenant(&gateway, &tenant).call(tool, arguments.clone()).await,
                    1 => sessions[number % 2].call(tool, arguments.clone()).await,
                    2 => over_rest(&gateway, &tenant, tool, &arguments, "application/json").await,
                    _ => over_rest(&gateway, &tenant, tool, &arguments, "text/event-stream").await,
                };
            }
        };
        stream::iter(0..CALLS).map(one).buffer_unordered(16).collect::<Vec<_>>().await;
        let calls = named.seen_calling("tools/call");
        assert_eq!((calls.len(), other.seen_calling("tools/call").len()), (CALLS, CALLS));
        let crossed = calls.iter().filter(|seen| {
            let params: Value = serde_json::from_str(&seen.params()).expect("JSON");
            seen.header("x-tenant") != params["arguments"]["tenant"].as_str()
        });
        assert_eq!(crossed.count(), 0, "{}", named.url());
        for seen in named.seen() {
            assert!(seen.headers.get("x-private").is_none(), "{seen:?}");
            let is_call = seen.rpc_method.as_deref() == Some("tools/call");
            assert!(is_call || seen.headers.get("x-tenant").is_none(), "not of one call: {seen:?}");
        }
        assert!(other.seen().iter().all(|seen| seen.headers.get("x-tenant").is_none()), "another server");
    }
}

#[tokio::test]
async fn clients_of_the_old_transport_forward_the_headers_of_each_message() {
    let (named, other) = (Scripted::modern().tool(Tool::named("a")).start(), other());
    let gateway = started(&named, &other).await;
    let mut stream = of_tenant(&gateway, "stream").to(&gateway.url("/sse")).listen().await;
    let endpoint = stream.event().await.expect("an endpoint").data;
    let of_message = |tenant| of_tenant(&gateway, tenant).to(&gateway.url(&endpoint));
    let client = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    of_message("t0").post(&of_message("t0").envelope("initialize", &client.to_string()), &[]).await;
    stream.next().await.expect("an answer");
    for tenant in ["t1", "t2"] {
        let call = json!({"name": "a", "arguments": {"tenant": tenant}}).to_string();
        of_message(tenant).post(&of_message(tenant).envelope("tools/call", &call), &[]).await;
        assert!(stream.next().await.expect("an answer")["result"].is_object());
    }
    assert_eq!(tenants(&named, "tools/call"), ["t1", "t2"].map(|tenant| Some(tenant.to_owned())));
}

#[tokio::test]
async fn several_values_and_other_bytes_arrive_as_they_were_sent() {
    let (named, other) = (Scripted::modern().tool(Tool::named("a")).start(), other());
    let gateway = started(&named, &other).await;
    let mut headers = HeaderMap::new();
    for value in [&b"one"[..], b"two, three", b"caf\xc3\xa9 \xff"] {
        headers.append("x-trace", HeaderValue::from_bytes(value).expect("a value"));
    }
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let body = json!({"tool": "a", "arguments": {}}).to_string();
    let request = http.post(gateway.url("/api/v1/mcp/call")).headers(headers.clone());
    let answer = request.header("content-type", "application/json").body(body).send().await;
    assert_eq!(answer.expect("an answer").status(), 200);
    let seen = named.seen_calling("tools/call").pop().expect("a call");
    let sent: Vec<_> = seen.headers.get_all("x-trace").iter().collect();
    assert_eq!(sent, headers.get_all("x-trace").iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn prompts_resources_and_further_attempts_carry_them_too() {
    for scripted in [Scripted::modern(), Scripted::legacy()] {
        let tool = Tool::defined("a", READ_ONLY).does(Act::Drop).does(Act::Echo);
        let named = scripted
            .tool(tool)
            .offers("prompts", r#"[{"name":"p"}]"#)
            .offers("resources", r#"[{"uri":"file:///r","name":"r"}]"#)
            .answers("prompts/get", vec![r#"{"messages":[]}"#.to_owned(); 4])
            .answers("resources/read", vec![r#"{"contents":[]}"#.to_owned(); 4])
            .start();
        let other = other();
        let gateway = started(&named, &other).await;
        assert_eq!(of_tenant(&gateway, "t").call("a", json!({})).await.text(), "{}");
        let twice = vec![Some("t".to_owned()); 2];
        assert_eq!(tenants(&named, "tools/call"), twice, "a further attempt");
        let (prompt, resource) = (json!({"name": "p"}), json!({"uri": "file:///r"}));
        of_tenant(&gateway, "t").modern("prompts/get", prompt).await;
        of_tenant(&gateway, "t").legacy().await.request("resources/read", resource.clone()).await;
        let rest = of_tenant(&gateway, "t");
        rest.to(&gateway.url("/api/v1/mcp/prompts/p")).post("{}", &[]).await;
        rest.to(&gateway.url("/api/v1/mcp/resources/read")).post(&resource.to_string(), &[]).await;
        assert_eq!(tenants(&named, "prompts/get"), twice);
        assert_eq!(tenants(&named, "resources/read"), twice);
    }
}

#[tokio::test]
async fn cached_answer_is_for_calls_with_the_same_headers() {
    let tool = (0..4).fold(Tool::defined("a", READ_ONLY), |tool, at| {
        tool.does(Act::Result(format!(
            r#"{{"content":[{{"type":"text","text":"{at}"}}],"resultType":"complete","ttlMs":60000,"cacheScope":"public"}}"#
        )))
    });
    let (named, other) = (Scripted::modern().tool(tool).start(), other());
    let registry =
        Registry::new().http("named", &named.url()).with(FORWARD).with("tools: {cache: {ttl: 60}}");
    let gateway = Gateway::of(&registry.http("other", &other.url())).start().await;
    gateway.offers(&["a", "b"]).await;
    let text = async |tenant| of_tenant(&gateway, tenant).call("a", json!({})).await.text();
    assert_eq!(
        [text("t0").await, text("t0").await, text("t1").await, text("t0").await],
        ["0", "0", "1", "0"]
    );
    assert_eq!(gateway.mcp().call("a", json!({})).await.text(), "2", "without the header");
    let unrelated = of_tenant(&gateway, "t1").with_header("x-other", "1").call("a", json!({})).await;
    assert_eq!(unrelated.text(), "1", "a header that the server does not get");
}

#[tokio::test]
async fn headers_that_are_too_large_are_refused_and_others_pass() {
    let (named, other) = (Scripted::modern().tool(Tool::named("a")).start(), other());
    let gateway = started(&named, &other).await;
    let large = "x".repeat(9_000);
    let mut session = gateway.mcp().legacy().await;
    session.client = session.client.with_header("x-tenant", &large);
    for refused in [
        of_tenant(&gateway, &large).call("a", json!({})).await,
        session.call("a", json!({})).await,
        over_rest(&gateway, &large, "a", &json!({}), "application/json").await,
        over_rest(&gateway, &large, "a", &json!({}), "text/event-stream").await,
    ] {
        assert!(refused.status == 431 && refused.body.contains("headers_too_large"), "{refused:?}");
        assert!(!refused.body.contains(&large[..100]));
    }
    assert_eq!(named.runs("a"), 0);
    let ignored = gateway.mcp().with_header("x-other", &large).call("a", json!({})).await;
    assert_eq!(ignored.text(), "{}", "it reaches no server");
}

// RULES S16 S18
#[tokio::test]
async fn forwarded_values_reach_no_log_and_no_other_origin() {
    const CANARY: &str = "canary-tenant-77";
    let elsewhere = Scripted::modern().tool(Tool::named("a")).start();
    let quoting = json!({"code": -32000, "message": format!("no tenant {CANARY}")}).to_string();
    let named = Scripted::modern()
        .tool(Tool::named("a").does(Act::Redirect(elsewhere.url())))
        .tool(Tool::named("quotes").does(Act::Error(quoting)))
        .start();
    let other = other();
    let gateway = Gateway::of(&registry(&named, &other)).env("SWITCHYARD_LOG", "debug").start().await;
    gateway.offers(&["a", "b"]).await;
    for tool in ["a", "quotes"] {
        of_tenant(&gateway, CANARY).call(tool, json!({})).await;
        over_rest(&gateway, CANARY, tool, &json!({}), "application/json").await;
    }
    assert_eq!(named.seen_calling("tools/call").len(), 4);
    assert!(elsewhere.seen().is_empty(), "a redirect to another origin is not followed");
    for route in ["/servers/named", "/history", "/configuration"] {
        let answer = gateway.get(route).await;
        assert!(answer.status == 200 && !answer.body.contains(CANARY), "{route}: {answer:?}");
    }
    let log = gateway.log().iter().map(Value::to_string).collect::<String>();
    assert!(log.contains("named") && !log.contains(CANARY), "a value is in the log");
    assert!(gateway.get("/configuration").await.body.contains("X-Tenant"), "the names are shown");
}

#[tokio::test]
async fn client_hides_none_of_its_arguments_with_a_header() {
    let named = Scripted::modern().tool(Tool::named("a")).start();
    let other = other();
    let registry = registry(&named, &other).setting("history: {arguments: true}");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a", "b"]).await;
    of_tenant(&gateway, "delete-all").call("a", json!({"command": "delete-all"})).await;
    let calls = gateway.get("/history").await;
    assert!(calls.body.contains("delete-all"), "{calls:?}");
}

#[tokio::test]
async fn clients_over_stdio_have_no_headers_and_call_as_before() {
    let (named, other) = (Scripted::modern().tool(Tool::named("a")).start(), other());
    let mut session = Gateway::of(&registry(&named, &other)).start_stdio();
    session.initialize();
    let params = json!({"name": "a", "arguments": {}});
    eventually("the tool is there", async || {
        let answer = session.request("tools/call", &params);
        answer.get("result").is_some().then_some(())
    })
    .await;
    assert_eq!(tenants(&named, "tools/call").pop(), Some(None));
}

#[tokio::test]
async fn credentials_and_headers_of_the_protocol_cannot_be_passed_on() {
    let check = |line: &str| {
        let registry = Registry::new().http("one", "http://127.0.0.1:9/mcp").with(line);
        let (code, out, err) = texts_of(&Gateway::of(&registry).output(&["check", "mcp_servers.yaml"]));
        (code, format!("{out}{err}"))
    };
    for name in [
        "Authorization",
        "authorization",
        "Cookie",
        "Set-Cookie",
        "Proxy-Authorization",
        "Proxy-X",
        "X-API-Key",
    ] {
        let (code, text) = check(&format!("forward_headers: [X-Fine, {name}]"));
        assert!(code == Some(2) && text.contains("mcp_servers.yaml:4:"), "{name}: {text}");
        assert!(
            text.contains("a credential of the client is not passed on") && text.contains("${principal:"),
            "{text}"
        );
    }
    for name in [
        "Host",
        "Connection",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "Expect",
        "Content-Type",
        "Content-Length",
        "Content-Encoding",
        "Accept",
        "Accept-Encoding",
        "Last-Event-ID",
        "Mcp-Session-Id",
        "Mcp-Param-X",
        "mcp-protocol-version",
    ] {
        let (code, text) = check(&format!("forward_headers: [{name}]"));
        assert!(code == Some(2) && text.contains("mcp_servers.yaml:4:"), "{name}: {text}");
        assert!(text.contains("is not passed on"), "{name}: {text}");
    }
    for (line, part) in [
        ("forward_headers: X-Tenant", "expected a list"),
        ("forward_headers: [\"X Tenant\"]", "not the name of a header"),
        ("forward_headers: [X-Tenant, x-tenant]", "stands twice"),
        ("headers: {x-tenant: a}\n    forward_headers: [X-Tenant]", "`headers` sets `x-tenant` already"),
        (
            "headers: {x-tenant: \"${principal:T}\"}\n    forward_headers: [X-Tenant]",
            "`headers` sets `x-tenant`",
        ),
        ("transport: stdio\n    forward_headers: [X-Tenant]", "belongs to transport `http` or `sse`"),
    ] {
        let (code, text) = check(line);
        assert!(code == Some(2) && text.contains(part), "{line}: {text}");
    }
    let (code, text) = check("forward_headers: [X-Tenant, User-Agent, traceparent, X-Forwarded-For]");
    assert_eq!(code, Some(0), "{text}");
}

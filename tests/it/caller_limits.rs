//! Limits of callers (`limits`): requests in a minute and calls at a time, on every way into the gateway.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use testkit::scripted::Step;

use crate::revoked::bearer;
use crate::support::asking::Asking;
use crate::support::client::{Session, Stream};
use crate::support::redis::Redis;
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Answer, Client, Gateway, Registry, Running, api_keys, at_once, eventually, odd};

const OPERATOR: &str = "swy_op_0123456789abcdef0123456789abcdef0123456789abcdef";
const ONE: &str = "swy_one_abcdef0123456789abcdef0123456789abcdef0123456789";
const TWO: &str = "swy_two_abcdef0123456789abcdef0123456789abcdef0123456789";
const BOUND: &str = "swy_bound_abcdef0123456789abcdef0123456789abcdef01234567";

const RESOURCES: &str = r#"[{"uri":"test:///a","name":"a"}]"#;
const MINUTE: Duration = Duration::from_mins(1);

/// The settings: the keys, and `limits`.
fn settings(registry: Registry, limits: &str) -> Registry {
    let keys = [
        (OPERATOR, "role: superuser"),
        (ONE, "role: caller"),
        (TWO, "role: caller"),
        (BOUND, "role: caller, view: support"),
    ];
    registry
        .setting(&format!("limits: {{{limits}}}"))
        .setting("views: {support: {servers: [tickets]}}")
        .setting(&format!("server: {{{}}}", api_keys(&keys)))
}

async fn started(registry: &Registry, tools: &[&str]) -> Running {
    let gateway = Gateway::of(registry).start().await;
    for tool in tools {
        gateway.offers_to(tool, &bearer(OPERATOR)).await;
    }
    gateway
}

/// A server with the tools `find`, `other` and `hang`, a prompt and a resource.
fn tickets() -> Server {
    let tools = [Tool::named("find"), Tool::named("other"), Tool::named("hang").does(Act::Hang)];
    let server = tools.into_iter().fold(Scripted::modern(), Scripted::tool);
    server.offers("prompts", r#"[{"name":"brief"}]"#).offers("resources", RESOURCES).start()
}

async fn before(server: &Server, limits: &str) -> Running {
    started(&settings(Registry::new().http("tickets", &server.url()), limits), &["find"]).await
}

fn client(gateway: &Running, key: &str) -> Client {
    gateway.mcp().with_header("authorization", &bearer(key))
}

async fn rest(gateway: &Running, key: &str, body: &Value) -> Answer {
    client(gateway, key).to(&gateway.url("/api/v1/mcp/call")).post(&body.to_string(), &[]).await
}

async fn rest_get(gateway: &Running, route: &str) -> Value {
    let url = gateway.url(&format!("/api/v1/mcp{route}"));
    client(gateway, OPERATOR).to(&url).bare(http::Method::GET, &[]).await.json()
}

async fn metric(gateway: &Running, line: &str) {
    eventually(line, async || {
        let url = gateway.url("/metrics");
        let text = client(gateway, OPERATOR).to(&url).bare(http::Method::GET, &[]).await.body;
        text.lines().any(|found| found == line).then_some(())
    })
    .await;
}

/// Whether an answer over MCP or REST is a result. Otherwise the limit must be the reason.
fn is_admitted(answer: &Answer) -> bool {
    let value = answer.json_or_event();
    if value["result"].is_object() || value["success"] == true {
        return true;
    }
    let code = if value["code"].is_string() { &value["code"] } else { &value["error"]["data"]["code"] };
    assert_eq!(code, "limit_reached", "{value}");
    false
}

/// Waits until a call of `tool` is admitted, which makes it run.
async fn has_a_place(gateway: &Running, key: &str, tool: &str) {
    eventually("there is a place", async || {
        is_admitted(&client(gateway, key).call(tool, json!({})).await).then_some(())
    })
    .await;
}

/// Begins a call that hangs, once there is a place for it. It runs while the future is kept.
async fn hanging<'c>(client: &'c Client, server: &Server) -> BoxFuture<'c, Answer> {
    eventually("a place for a call that hangs", async || {
        let before = server.runs("hang");
        let mut call = client.call("hang", json!({})).boxed();
        let runs = eventually("it runs", async || (server.runs("hang") > before).then_some(()));
        tokio::select! {
            refused = &mut call => {
                assert!(!is_admitted(&refused), "it hangs");
                None
            }
            () = runs => Some(call),
        }
    })
    .await
}

/// One of the ways in which a client calls a tool.
#[derive(Debug, Clone, Copy)]
enum Way {
    Modern,
    OneServer,
    Legacy,
    Sse,
    Rest,
    RestStream,
}

impl Way {
    const ALL: [Self; 6] =
        [Self::Modern, Self::OneServer, Self::Legacy, Self::Sse, Self::Rest, Self::RestStream];

    /// Calls `find`. Returns the HTTP status, the header `Retry-After` and the message.
    async fn call(self, gateway: &Running, key: &str) -> (u16, Option<String>, Value) {
        let client = client(gateway, key);
        let answer = match self {
            Self::Modern => client.call("find", json!({})).await,
            Self::OneServer => client.to(&gateway.url("/mcp/tickets")).call("find", json!({})).await,
            Self::Legacy => client.legacy().await.call("find", json!({})).await,
            Self::Rest => rest(gateway, key, &json!({"tool": "find"})).await,
            Self::RestStream => {
                let accept = [("accept", "text/event-stream")];
                client.to(&gateway.url("/api/v1/mcp/call")).post(r#"{"tool":"find"}"#, &accept).await
            }
            Self::Sse => return (200, None, over_sse(gateway, &client).await),
        };
        let retry = answer.header("retry-after").map(str::to_owned);
        (answer.status, retry, answer.json_or_event())
    }
}

/// The answer to a call of `find` over HTTP+SSE.
async fn over_sse(gateway: &Running, client: &Client) -> Value {
    let mut stream = client.to(&gateway.url("/sse")).listen().await;
    let address = stream.event().await.expect("the first event").data;
    let messages = client.to(&gateway.url(&address));
    let hello = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    messages.post(&messages.envelope("initialize", &hello.to_string()), &[]).await;
    messages.post(&messages.envelope("tools/call", r#"{"name":"find"}"#), &[]).await;
    eventually("the answer over SSE", async || {
        let message: Value =
            serde_json::from_str(&stream.event().await.expect("an event").data).expect("JSON");
        (message["result"]["content"].is_array() || message["error"].is_object()).then_some(message)
    })
    .await
}

#[tokio::test]
async fn the_second_request_of_a_minute_is_refused_on_every_way() {
    at_once(Way::ALL, async |way| {
        let server = tickets();
        let gateway = before(&server, "callers: {role: caller, requests_per_minute: 1}").await;
        let began = Instant::now();
        let (status, _, first) = way.call(&gateway, ONE).await;
        assert_eq!((status, server.runs("find")), (200, 1), "{way:?}: {first}");
        let (status, retry, refused) = way.call(&gateway, ONE).await;
        let (least, most) = (MINUTE.saturating_sub(began.elapsed()), MINUTE);
        let is_rest = matches!(way, Way::Rest | Way::RestStream);
        let data = if is_rest { &refused } else { &refused["error"]["data"] };
        assert_eq!(data["code"], "limit_reached", "{way:?}: {refused}");
        assert_eq!((&data["retryable"], &data["tool"]), (&json!(true), &json!("find")), "{way:?}: {refused}");
        let wait = Duration::from_millis(data["retry_after_ms"].as_u64().expect("a time"));
        assert!((least..=most).contains(&wait), "{way:?}: {wait:?}, {least:?} to {most:?}");
        let number = &refused["error"]["code"];
        match way {
            Way::Modern | Way::OneServer => assert_eq!((status, number), (429, &json!(-31004)), "{way:?}"),
            Way::Rest => assert_eq!(status, 429),
            // Older clients read no body of another status, and a stream has begun.
            Way::Legacy | Way::Sse => assert_eq!((status, number), (200, &json!(-32004)), "{way:?}"),
            Way::RestStream => assert_eq!(status, 200),
        }
        if status == 429 {
            let seconds: u64 = retry.expect("Retry-After").parse().expect("seconds");
            assert!(
                Duration::from_secs(seconds) >= wait
                    && Duration::from_secs(seconds) <= wait + Duration::from_secs(1)
            );
        }
        // Others, and requests that reach no server, are not limited.
        assert_eq!(way.call(&gateway, TWO).await.0, 200, "{way:?}");
        assert!(!client(&gateway, ONE).modern("tools/list", json!({})).await.tool_names().is_empty());
        for _ in 0..2 {
            assert_eq!(way.call(&gateway, OPERATOR).await.0, 200, "{way:?}: another role");
        }
        assert_eq!(server.runs("find"), 4, "{way:?}: a refused call reaches no server");
        metric(
            &gateway,
            r#"switchyard_requests_limited_total{name="callers",reached="requests_per_minute"} 1"#,
        )
        .await;
        metric(&gateway, r#"switchyard_requests_limited_total{name="callers",reached="calls_at_a_time"} 0"#)
            .await;
        let calls = rest_get(&gateway, "/history?principal=key:one").await["calls"].clone();
        let codes: Vec<&Value> = calls.as_array().expect("calls").iter().map(|call| &call["code"]).collect();
        assert!(codes.contains(&&json!("limit_reached")), "{way:?}: {calls}");
        let breakers = rest_get(&gateway, "/circuit-breakers").await;
        assert_eq!(breakers["circuit_breakers"][0]["failure_count"], 0, "{breakers}");
    })
    .await;
}

#[tokio::test]
async fn the_second_request_over_stdio_is_refused() {
    let server = tickets();
    let registry =
        Registry::new().http("tickets", &server.url()).setting("limits: {all: {requests_per_minute: 1}}");
    let mut session = Gateway::of(&registry).start_stdio();
    session.initialize();
    let call = json!({"name": "find", "arguments": {}});
    assert!(session.request("tools/call", &call)["result"].is_object());
    let refused = session.request("tools/call", &call);
    assert_eq!(refused["error"]["data"]["code"], "limit_reached", "{refused}");
    assert_eq!(server.runs("find"), 1);
}

#[tokio::test]
async fn after_the_time_of_the_refusal_the_request_is_admitted() {
    let server = tickets();
    let gateway = before(&server, "all: {requests_per_minute: 30}").await;
    let one = client(&gateway, ONE);
    let mut admitted = 0;
    let refused = loop {
        let answer = one.call("find", json!({})).await;
        if !is_admitted(&answer) {
            break answer;
        }
        admitted += 1;
    };
    assert!((30..40).contains(&admitted), "{admitted}: a whole minute at once, and then evenly");
    let wait = refused.json()["error"]["data"]["retry_after_ms"].as_u64().expect("a time");
    assert!(wait <= 2_000, "{wait} ms");
    tokio::time::sleep(Duration::from_millis(wait)).await;
    assert!(is_admitted(&one.call("find", json!({})).await));
}

#[tokio::test]
async fn a_limit_of_a_tool_or_of_a_server_counts_nothing_else() {
    let [server, docs] = [tickets(), Scripted::modern().tool(Tool::named("search")).start()];
    let registry = Registry::new().http("tickets", &server.url()).http("docs", &docs.url());
    let limits =
        "find: {tool: \"tickets/fi*\", requests_per_minute: 1}, docs: {server: docs, requests_per_minute: 2}";
    let gateway = started(&settings(registry, limits), &["find", "search"]).await;
    let one = client(&gateway, ONE);
    let admitted = async |tool: &str| is_admitted(&one.call(tool, json!({})).await);
    assert_eq!([admitted("find").await, admitted("find").await], [true, false]);
    assert_eq!([admitted("other").await, admitted("other").await], [true, true]);
    assert_eq!(
        [admitted("search").await, admitted("search").await, admitted("search").await],
        [true, true, false]
    );
    for (method, params) in
        [("prompts/get", json!({"name": "brief"})), ("resources/read", json!({"uri": "test:///a"}))]
    {
        for _ in 0..3 {
            let answer = one.modern(method, params.clone()).await;
            assert!(!answer.body.contains("limit_reached"), "{method}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn every_request_that_reaches_a_server_counts() {
    for (method, params) in [
        ("tools/call", json!({"name": "find"})),
        ("prompts/get", json!({"name": "brief"})),
        ("resources/read", json!({"uri": "test:///a"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "brief"}, "argument": {"name": "a", "value": "b"}}),
        ),
        ("vendor/anything", json!({})),
    ] {
        let server = tickets();
        let gateway = before(&server, "all: {server: tickets, requests_per_minute: 1}").await;
        let one = client(&gateway, ONE).to(&gateway.url("/mcp/tickets"));
        let first = one.modern(method, params.clone()).await;
        assert!(!first.body.contains("limit_reached"), "{method}: {}", first.body);
        let second = one.modern(method, params).await;
        assert_eq!(
            (second.status, second.error()["data"]["code"].as_str()),
            (429, Some("limit_reached")),
            "{method}"
        );
        assert_eq!(server.seen_calling(method).len(), 1, "{method}");
    }
}

#[tokio::test]
async fn all_limits_count_and_a_refused_request_takes_of_none() {
    let server = tickets();
    let limits = "together: {per: all, role: caller, requests_per_minute: 3}, each: {requests_per_minute: 2}";
    let gateway = before(&server, limits).await;
    let admitted = async |key: &str| is_admitted(&client(&gateway, key).call("find", json!({})).await);
    assert_eq!([admitted(ONE).await, admitted(ONE).await, admitted(ONE).await], [true, true, false]);
    assert_eq!([admitted(TWO).await, admitted(TWO).await], [true, false], "two callers share three requests");
    let limits = rest_get(&gateway, "/why?tool=find").await["tools"][0]["limits"].clone();
    let names: Vec<&str> =
        limits.as_array().expect("limits").iter().filter_map(|limit| limit["name"].as_str()).collect();
    assert_eq!(names, ["together", "each"]);
    metric(&gateway, r#"switchyard_requests_limited_total{name="each",reached="requests_per_minute"} 1"#)
        .await;
    metric(&gateway, r#"switchyard_requests_limited_total{name="together",reached="requests_per_minute"} 1"#)
        .await;
}

#[tokio::test]
async fn operators_learn_which_limits_count_the_calls_of_a_key() {
    let server = tickets();
    let limits = "ones: {principal: \"key:one\", requests_per_minute: 5}, helpdesk: {view: support, per: all, calls_at_a_time: 2}, \
                  callers: {role: caller, requests_per_minute: 9, calls_at_a_time: 3}, others: {tool: tickets/other, calls_at_a_time: 1}";
    let registry = settings(Registry::new().http("tickets", &server.url()), limits);
    let gateway = started(&registry, &["find"]).await;
    let why = |key: &str| {
        let url = gateway.url("");
        let told = gateway.gateway().output(&["why", "find", "--as", key, "--key", OPERATOR, "--url", &url]);
        let text = String::from_utf8_lossy(&[told.stdout, told.stderr].concat()).into_owned();
        text.lines().find_map(|line| line.strip_prefix("limits: ").map(str::to_owned)).unwrap_or(text)
    };
    let callers = "callers (9 requests a minute and 3 calls at a time, each caller with the role caller)";
    assert_eq!(
        why("one"),
        format!("ones (5 requests a minute, each caller with the principal key:one), {callers}")
    );
    assert_eq!(why("bound"), format!("helpdesk (2 calls at a time, all callers together), {callers}"));
    assert!(!why("op").contains("limits"), "no limit is for it");
}

#[tokio::test]
async fn a_limit_of_a_view_counts_what_comes_through_it() {
    let server = tickets();
    let gateway = before(&server, "support: {view: support, requests_per_minute: 1}").await;
    let admitted = async |key: &str, path: &str| {
        is_admitted(&client(&gateway, key).to(&gateway.url(path)).call("find", json!({})).await)
    };
    assert_eq!([admitted(BOUND, "/mcp").await, admitted(BOUND, "/mcp/support").await], [true, false]);
    assert_eq!([admitted(ONE, "/mcp").await, admitted(ONE, "/mcp").await], [true, true]);
    assert_eq!([admitted(ONE, "/mcp/support").await, admitted(ONE, "/mcp/support").await], [true, false]);
}

#[tokio::test]
async fn a_name_that_the_caller_does_not_see_is_unknown_and_not_limited() {
    let [server, docs] = [tickets(), Scripted::modern().tool(Tool::named("search")).start()];
    let registry = Registry::new().http("tickets", &server.url()).http("docs", &docs.url());
    let limits = "all: {requests_per_minute: 1}, search: {tool: docs/search, requests_per_minute: 1}";
    let gateway = started(&settings(registry, limits), &["find", "search"]).await;
    let bound = client(&gateway, BOUND);
    assert!(is_admitted(&bound.call("find", json!({})).await));
    assert!(!is_admitted(&bound.call("find", json!({})).await));
    let error = async |name: &str| {
        let mut error = bound.call(name, json!({})).await.error();
        error["data"].as_object_mut().expect("an object").remove("request_id");
        error.to_string().replace(name, "NAME")
    };
    let hidden = error("search").await;
    assert_eq!(hidden, error("serach").await);
    assert!(hidden.contains("tool_not_found"), "{hidden}");
}

#[tokio::test]
async fn the_place_of_a_call_is_free_when_it_ends_in_any_way() {
    let server = tickets();
    let gateway = before(&server, "few: {calls_at_a_time: 1, role: caller}").await;
    let one = client(&gateway, ONE);
    let full = async || !is_admitted(&one.call("find", json!({})).await);
    let hangs = async |runs: usize| {
        eventually("it runs", async || (server.runs("hang") == runs).then_some(())).await;
    };
    let hang = json!({"name": "hang", "arguments": {}});

    // Its client disconnects.
    {
        let meanwhile = async {
            hangs(1).await;
            assert!(full().await, "one call at a time");
            let refused = one.call("find", json!({})).await;
            assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
            assert!(is_admitted(&client(&gateway, TWO).call("find", json!({})).await), "another caller");
        };
        tokio::select! {
            _ = one.call("hang", json!({})) => panic!("it hangs"),
            () = meanwhile => {}
        }
    }
    has_a_place(&gateway, ONE, "find").await;
    // A client of REST disconnects.
    {
        let meanwhile = async {
            hangs(2).await;
            assert!(full().await);
        };
        let hang = json!({"tool": "hang"});
        tokio::select! {
            _ = rest(&gateway, ONE, &hang) => panic!("it hangs"),
            () = meanwhile => {}
        }
    }
    has_a_place(&gateway, ONE, "find").await;
    // The call takes too long.
    let (timed_out, is_full) =
        tokio::join!(async { rest(&gateway, ONE, &json!({"tool": "hang", "timeout": 1})).await }, async {
            hangs(3).await;
            full().await
        });
    assert_eq!((timed_out.status, is_full), (504, true), "{}", timed_out.body);
    has_a_place(&gateway, ONE, "find").await;
    // Its client cancels it.
    let session: Session = one.legacy().await;
    let body = session.client.envelope("tools/call", &hang.to_string());
    let id: Value = serde_json::from_str::<Value>(&body).expect("JSON")["id"].clone();
    let mut stream: Stream = session.client.post_stream(&body, &[("accept", "text/event-stream")]).await;
    hangs(4).await;
    assert!(full().await);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    session.client.post(&cancelled.to_string(), &[]).await;
    has_a_place(&gateway, ONE, "find").await;
    assert!(stream.next().await.is_none(), "it has no answer");
    metric(&gateway, r#"switchyard_requests_limited_total{name="few",reached="requests_per_minute"} 0"#)
        .await;
}

#[tokio::test]
async fn a_call_keeps_its_place_until_the_end_of_its_response() {
    let text = "x".repeat(64 * 1024);
    let server = odd::http(move |seen| {
        (seen.method() == "tools/call" && seen.body.as_str().contains("odd")).then(|| {
            let result = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#,
                seen.id()
            );
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                result.len()
            );
            let (first, rest) = result.split_at(48 * 1024);
            vec![Step::Say(head + first), Step::Wait, Step::Say(rest.to_owned())]
        })
    })
    .await;
    let registry = Registry::new().http("tickets", server.url.as_str());
    let gateway = started(&settings(registry, "few: {calls_at_a_time: 1}"), &["odd"]).await;
    let session = client(&gateway, ONE).legacy().await;
    let body = session.client.envelope("tools/call", r#"{"name":"odd"}"#);
    for is_read in [true, false] {
        // It returns when the response begins.
        let mut stream = session.client.post_stream(&body, &[]).await;
        assert!(
            !is_admitted(&client(&gateway, ONE).call("fine", json!({})).await),
            "its response is arriving"
        );
        if is_read {
            server.go.add_permits(1);
            while stream.event().await.is_some() {}
        }
        drop(stream);
        has_a_place(&gateway, ONE, "fine").await;
    }
}

#[tokio::test]
async fn a_suspended_call_keeps_its_place_and_is_counted_once() {
    let server = Asking::start();
    let registry = Registry::new().http("asker", &server.url("/mcp"));
    let limits = "all: {calls_at_a_time: 1, requests_per_minute: 2}";
    let gateway = started(&settings(registry, limits), &["ask"]).await;
    let one = client(&gateway, ONE);
    let capabilities = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"}});
    let mut call = json!({"name": "ask", "arguments": {"nonce": "n", "asks": true}, "_meta": capabilities});
    let suspended = one.modern("tools/call", call.clone()).await.result();
    assert_eq!(suspended["resultType"], "input_required", "{suspended}");
    let plain = json!({"nonce": "p"});
    let refused = one.call("ask", plain.clone()).await.error();
    assert!(refused["message"].to_string().contains("calls at a time"), "{refused}");
    let key = suspended["inputRequests"].as_object().expect("requests").keys().next().expect("one").clone();
    call["inputResponses"] = json!({key: {"action": "accept", "content": {"nonce": "n"}}});
    call["requestState"] = suspended["requestState"].clone();
    assert_eq!(one.modern("tools/call", call).await.text(), "n|n", "it goes on in its place");
    assert!(is_admitted(&one.call("ask", plain.clone()).await), "the second of two requests");
    let refused = one.call("ask", plain).await.error();
    assert!(refused["message"].to_string().contains("requests in a minute"), "{refused}");
}

#[tokio::test]
async fn refused_calls_of_one_caller_take_no_calls_of_another_out_of_the_history() {
    let server = tickets();
    let registry = Registry::new().http("tickets", &server.url()).setting("history: {calls: 80}");
    let limits = "few: {principal: \"key:one\", requests_per_minute: 1}";
    let gateway = started(&settings(registry, limits), &["find", "other"]).await;
    for _ in 0..5 {
        assert!(is_admitted(&client(&gateway, TWO).call("other", json!({})).await));
    }
    let call = json!({"tool": "find", "arguments": {}});
    let mut refused = 0;
    for _ in 0..50 {
        let calls = (0..10).map(|_| rest(&gateway, ONE, &call));
        let answers = futures_util::future::join_all(calls).await;
        refused += answers.iter().filter(|answer| !is_admitted(answer)).count();
    }
    assert!(refused > 490, "{refused}");
    // Only the files have them then.
    let gateway = gateway.end().await.start().await;
    let past = async |who: &str| {
        let page = rest_get(&gateway, &format!("/history?limit=1000&principal=key:{who}")).await;
        page["calls"].as_array().unwrap_or_else(|| panic!("{page}")).len()
    };
    let (one, two) = (past("one").await, past("two").await);
    assert_eq!(two, 5, "beside {one} of the other caller");
    assert!((40..=75).contains(&one), "{one}");
}

/// The error of a legacy server that wants a page visited first.
const PAGE: &str = r#"{"code":-32042,"message":"go there","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://x.example","message":"m"}]}}"#;

/// A call of `pages` by a client whose user can visit pages.
fn call_for_pages() -> Value {
    json!({"name": "pages", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"}}})
}

#[tokio::test]
async fn a_limit_that_is_reached_leaves_the_state_of_a_suspended_request_valid() {
    let pages = Tool::named("pages").does(Act::Error(PAGE.to_owned())).does(Act::Echo);
    let server = Scripted::legacy().tool(pages).tool(Tool::named("hang").does(Act::Hang)).start();
    let registry = Registry::new().http("tickets", &server.url());
    let gateway = started(&settings(registry, "few: {calls_at_a_time: 1}"), &["pages", "hang"]).await;
    let one = client(&gateway, ONE);
    let mut call = call_for_pages();
    let suspended = one.modern("tools/call", call.clone()).await.result();
    assert_eq!(suspended["resultType"], "input_required", "{suspended}");
    call["requestState"] = suspended["requestState"].clone();
    call["inputResponses"] = json!({"page-1": {"action": "accept"}});

    let running = hanging(&one, &server).await;
    for _ in 0..2 {
        assert!(!is_admitted(&one.modern("tools/call", call.clone()).await), "another call runs");
    }
    drop(running);
    let resumed = eventually("there is a place", async || {
        let answer = one.modern("tools/call", call.clone()).await;
        is_admitted(&answer).then_some(answer)
    })
    .await;
    assert_eq!((resumed.result()["resultType"].as_str(), server.runs("pages")), (Some("complete"), 2));
    let again = one.modern("tools/call", call).await.error();
    assert!(again["message"].to_string().contains("was used already"), "{again}");
}

#[tokio::test]
async fn declined_request_is_not_counted() {
    let server = Scripted::legacy().tool(Tool::named("pages").does(Act::Error(PAGE.to_owned()))).start();
    let registry = Registry::new().http("tickets", &server.url());
    let gateway = started(&settings(registry, "few: {requests_per_minute: 2}"), &["pages"]).await;
    let one = client(&gateway, ONE);
    let mut call = call_for_pages();
    let suspended = one.modern("tools/call", call.clone()).await.result();
    let fresh = call.clone();
    call["requestState"] = suspended["requestState"].clone();
    call["inputResponses"] = json!({"page-1": {"action": "decline"}});
    assert_eq!(one.modern("tools/call", call).await.error()["code"], -32042, "the refusal of the server");
    let second = one.modern("tools/call", fresh.clone()).await;
    assert_eq!(second.result()["resultType"], "input_required", "the second of two requests: {second:?}");
    assert!(!is_admitted(&one.modern("tools/call", fresh).await));
}

#[tokio::test]
async fn further_requests_for_one_request_of_a_client_do_not_count() {
    // A call of an older client that its server asks to repeat.
    let again = r#"{"resultType":"input_required","inputRequests":{},"requestState":"s"}"#;
    let twice = Tool::named("twice").does(Act::Result(again.to_owned())).does(Act::Echo);
    let server = Scripted::modern().tool(twice).start();
    let gateway = started(
        &settings(Registry::new().http("a", &server.url()), "all: {requests_per_minute: 1}"),
        &["twice"],
    )
    .await;
    let session = client(&gateway, ONE).legacy().await;
    assert!(is_admitted(&session.call("twice", json!({})).await));
    assert_eq!(server.runs("twice"), 2);
    assert!(!is_admitted(&session.call("twice", json!({})).await));

    // A read of a URI that nobody lists, at two servers.
    let servers = [(); 2].map(|()| {
        let server = Scripted::modern().tool(Tool::named("t")).offers("resources", "[]");
        server.refuses("resources/read", "there is no such resource").start()
    });
    let registry = Registry::new().http("a", &servers[0].url()).http("b", &servers[1].url());
    let limits = "all: {requests_per_minute: 1}, b: {server: b, requests_per_minute: 5}";
    let gateway = started(&settings(registry, limits), &["a__t", "b__t"]).await;
    let one = client(&gateway, ONE);
    let read = async || one.modern("resources/read", json!({"uri": "other://x"})).await.body;
    assert!(!read().await.contains("limit_reached"));
    let reads = servers.each_ref().map(|server| server.seen_calling("resources/read").len());
    assert_eq!(reads, [1, 1], "both were asked");
    assert!(read().await.contains("limit_reached"));
}

#[tokio::test]
async fn a_reload_changes_limits_and_keeps_the_counts() {
    let server = tickets();
    let gateway = before(&server, "all: {role: caller, requests_per_minute: 1}").await;
    let admitted = async |tool: &str| is_admitted(&client(&gateway, ONE).call(tool, json!({})).await);
    let reload = async |limits: &str| {
        let registry = settings(Registry::new().http("tickets", &server.url()), limits);
        gateway.rewrite(&registry.yaml());
        let url = gateway.url("/api/v1/mcp/reload");
        let reloaded = client(&gateway, OPERATOR).to(&url).post("", &[]).await;
        assert_eq!(reloaded.status, 200, "{}", reloaded.body);
    };
    assert_eq!([admitted("find").await, admitted("find").await], [true, false]);
    reload("all: {role: caller, requests_per_minute: 2}").await;
    assert!(!admitted("find").await, "the minute that was used stays used");
    reload("other: {calls_at_a_time: 1}").await;
    assert!(admitted("find").await, "the limit is gone");
    let one = client(&gateway, ONE);
    let meanwhile = async {
        eventually("it runs", async || (server.runs("hang") == 1).then_some(())).await;
        reload("other: {calls_at_a_time: 2}").await;
        let second = async {
            eventually("it runs too", async || (server.runs("hang") == 2).then_some(())).await;
            assert!(!admitted("find").await, "the call from before the reload is counted");
        };
        tokio::select! {
            _ = one.call("hang", json!({})) => panic!("it hangs"),
            () = second => {}
        }
    };
    tokio::select! {
        _ = one.call("hang", json!({})) => panic!("it hangs"),
        () = meanwhile => {}
    }
}

/// Two gateways with one Redis, before the same server.
async fn two_before(server: &Server, redis: &Redis, limits: &str) -> [Running; 2] {
    let registry = || {
        let cache = format!("cache: {{type: redis, url: \"{}\", command_timeout: 1}}", redis.url());
        settings(Registry::new().http("tickets", &server.url()), limits).setting(&cache)
    };
    let gateways = [started(&registry(), &["find"]).await, started(&registry(), &["find"]).await];
    for gateway in &gateways {
        metric(gateway, "switchyard_cache_available 1").await;
    }
    gateways
}

#[tokio::test]
async fn gateways_with_one_redis_share_the_limits() {
    let (server, redis) = (tickets(), Redis::start().await);
    let limits = "minute: {requests_per_minute: 3, tool: tickets/find}, calls: {calls_at_a_time: 1, tool: tickets/o*}, \
                  hanging: {calls_at_a_time: 1, tool: tickets/hang}";
    let [a, b] = two_before(&server, &redis, limits).await;
    let admitted =
        async |gateway: &Running, tool: &str| is_admitted(&client(gateway, ONE).call(tool, json!({})).await);
    assert_eq!(
        [admitted(&a, "find").await, admitted(&b, "find").await, admitted(&a, "find").await],
        [true; 3]
    );
    assert_eq!([admitted(&a, "find").await, admitted(&b, "find").await], [false; 2]);
    let refused = client(&b, ONE).call("find", json!({})).await.error();
    let wait = refused["data"]["retry_after_ms"].as_u64().expect("a time");
    assert!((10_000..=20_000).contains(&wait), "{wait} ms until a third of the minute is free");
    assert!(is_admitted(&client(&b, TWO).call("find", json!({})).await), "another caller");
    // Calls one after another are never refused because the end of the one before was not reported yet.
    for _ in 0..50 {
        assert!(admitted(&a, "other").await);
    }
    let [at_a, at_b] = [&a, &b].map(|gateway| client(gateway, ONE));
    let call = hanging(&at_a, &server).await;
    assert!(!admitted(&b, "hang").await, "one call at a time at both");
    drop(call);
    // Its place is free at the other gateway too, and stays taken while a call runs for longer than its number holds.
    let _call = hanging(&at_b, &server).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(!admitted(&a, "hang").await, "a call that runs long keeps its place");
    b.kill();
    // The places of a gateway that died are free after some seconds.
    drop(hanging(&at_a, &server).await);
}

#[tokio::test]
async fn when_redis_is_killed_or_paused_the_limit_of_each_gateway_holds() {
    for is_paused in [false, true] {
        let (server, redis) = (tickets(), Redis::start().await);
        let [a, b] = two_before(&server, &redis, "minute: {requests_per_minute: 2}").await;
        let admitted =
            async |gateway: &Running| is_admitted(&client(gateway, ONE).call("find", json!({})).await);
        assert_eq!([admitted(&a).await, admitted(&b).await, admitted(&a).await], [true, true, false]);
        let paused = if is_paused {
            redis.pause();
            Some(redis)
        } else {
            redis.kill();
            None
        };
        let began = Instant::now();
        assert_eq!([admitted(&a).await, admitted(&a).await, admitted(&a).await], [true, false, false]);
        assert_eq!([admitted(&b).await, admitted(&b).await], [true, false]);
        let mut of_other = 0;
        for _ in 0..20 {
            of_other += usize::from(is_admitted(&client(&a, TWO).call("find", json!({})).await));
        }
        assert_eq!((of_other, server.runs("find")), (2, 6));
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}: calls wait for Redis", began.elapsed());
        let told = a.log().iter().filter(|line| line.to_string().contains("redis cannot be reached")).count();
        assert!(told <= 1, "it is told once");
        drop(paused);
    }
}

#[test]
fn limits_without_effect_are_told_and_wrong_ones_refused() {
    let check = |limits: &str| {
        let registry = Registry::new().http("tickets", "http://localhost:1/mcp");
        let told = Gateway::of(&settings(registry, limits)).output(&["check", "mcp_servers.yaml"]);
        let text = [told.stdout, told.stderr].concat();
        (told.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    for (limit, reason) in [
        ("{requests_per_minute: 1, view: suport}", "there is no view `suport`"),
        ("{requests_per_minute: 1, server: doc*}", "there is no server `doc*`"),
        ("{requests_per_minute: 1, tool: docs/search}", "there is no server `docs`"),
        ("{requests_per_minute: 1, principal: \"key:thre*\"}", "there is no key `thre*`"),
        ("{requests_per_minute: 1, principal: one}", "they begin with `key:`"),
    ] {
        let (code, text) = check(&format!("a: {limit}"));
        assert!(
            code == Some(0) && text.contains("`limits.a` in line") && text.contains(reason),
            "{limit}: {text}"
        );
    }
    let fine = "{calls_at_a_time: 1, view: support, server: tick*, tool: \"*/find\", principal: \"key:o*\"}";
    let (code, text) = check(&format!("a: {fine}"));
    assert!(code == Some(0) && !text.contains("warning"), "{text}");
    for (limits, reason) in [
        ("a: {view: support}", "it limits nothing"),
        ("a: {requests_per_minute: 0}", "expected 1 to 1000000"),
        ("a: {calls_at_a_time: 1, tool: find}", "server/tool"),
        ("a: {calls_at_a_time: 1, per: key}", "principal"),
        ("\"a b\": {calls_at_a_time: 1}", "this cannot be the name of a limit"),
        ("a: {rate: 1}", "unknown key"),
    ] {
        let (code, text) = check(limits);
        assert!(code == Some(2) && text.contains(reason), "{limits}: {text}");
    }
}

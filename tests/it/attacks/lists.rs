//! Lists and requests that cost far more work than bytes: templates, references, names, URIs and keys.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::bulk::silent;
use crate::support::line::Line;
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running, eventually};

/// A URI that takes as long as possible to be found not to match [`hostile_templates`].
fn hostile_uri(number: usize) -> String {
    format!("db://{number}{}!", "a".repeat(7_900))
}

fn hostile_templates(count: usize) -> Value {
    let template = |number: usize| format!("db://{}{{+x}}Z{number}{{+x}}", "{+x}a".repeat(14));
    json!((0..count).map(|number| json!({"uriTemplate": template(number), "name": "t"})).collect::<Vec<_>>())
}

/// The median of three runs of `measured`.
async fn median(mut measured: impl AsyncFnMut() -> Duration) -> Duration {
    let mut all = [measured().await, measured().await, measured().await];
    all.sort_unstable();
    all[1]
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64().max(0.001)
}

/// A tool that answers with `count` links.
fn linking(name: &str, count: usize) -> Tool {
    let link = |number| json!({"type": "resource_link", "name": "l", "uri": hostile_uri(number)});
    let content: Vec<Value> = (0..count).map(link).collect();
    Tool::named(name).does(Act::Result(json!({"content": content, "resultType": "complete"}).to_string()))
}

#[tokio::test]
async fn links_in_an_answer_have_one_budget_whatever_the_templates_are() {
    let good = Scripted::modern()
        .offers("resources", "[]")
        .offers("resourceTemplates", &hostile_templates(1_000).to_string())
        .start();
    let evil = Scripted::modern()
        .offers("resources", "[]")
        .tool(linking("few", 5))
        .tool(linking("many", 50))
        .start();
    let registry = Registry::new().http("good", &good.url()).http("evil", &evil.url());
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["few", "many"]).await;
    eventually("the templates are offered", async || {
        let all = gateway.mcp().modern("resources/templates/list", json!({})).await.result();
        (all["resourceTemplates"].as_array()?.len() == 1_000).then_some(())
    })
    .await;
    let cost = async |tool: &str| {
        let before = gateway.cpu_time();
        let answer = gateway.mcp().call(tool, json!({})).await.result();
        assert!(answer["content"].as_array().expect("links").iter().all(|link| link["uri"].is_string()));
        gateway.cpu_time().saturating_sub(before)
    };
    let few = median(async || cost("few").await).await;
    let many = median(async || cost("many").await).await;
    eprintln!("CPU time of 5 links {few:?}, of 50 links {many:?}: ratio {:.1}", ratio(many, few));
    // CPU time is counted in steps of 10 ms: of so few a ratio says nothing.
    let is_cheap = many < Duration::from_millis(400);
    assert!(is_cheap || ratio(many, few) < 5.0 && many < Duration::from_secs(2), "{few:?} {many:?}");
}

#[tokio::test]
async fn probes_do_not_wait_while_a_catalog_is_built() {
    let uris: Vec<Value> = (0..600).map(|number| json!({"uri": hostile_uri(number), "name": "r"})).collect();
    let evil = Scripted::modern()
        .offers("resources", &json!(uris).to_string())
        .offers("resourceTemplates", &hostile_templates(1_000).to_string())
        .tool(Tool::named("first"))
        .start();
    let good = Scripted::modern()
        .offers("resources", "[]")
        .offers("resourceTemplates", &hostile_templates(1_000).to_string())
        .tool(Tool::named("ping"))
        .start();
    let registry = Registry::new().http("good", &good.url()).http("evil", &evil.url());
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["first", "ping"]).await;

    let tool = |number: usize| {
        let meta = json!({"ui": {"resourceUri": hostile_uri(number)}});
        let name = format!("t{number}");
        Tool::defined(
            &name,
            &json!({"name": name, "inputSchema": {"type": "object"}, "_meta": meta}).to_string(),
        )
    };
    let started = Instant::now();
    evil.change_tools((0..600).map(tool).chain([Tool::named("last")]).collect());
    let (mut slowest, mut probe) = (Duration::ZERO, Line::to(&gateway.address));
    let built = async {
        eventually("the tools are offered", async || {
            let one = gateway.get("/servers").await.json()["servers"][1].clone();
            (one["tool_count"] == 601 || one["tools"] == 601).then_some(())
        })
        .await;
    };
    let probes = async {
        loop {
            let asked = Instant::now();
            assert_eq!(probe.send("GET", "/health/live", &[], b"").await.status, 200);
            slowest = slowest.max(asked.elapsed());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        () = built => {}
        () = probes => {}
    }
    let build_time = started.elapsed();
    eprintln!("read and built in {build_time:?}; the slowest probe meanwhile took {slowest:?}");
    assert!(
        slowest < Duration::from_millis(500) && build_time < Duration::from_secs(15),
        "{slowest:?} {build_time:?}"
    );
}

#[tokio::test]
async fn an_unknown_name_costs_the_same_among_a_hundred_and_ten_thousand_tools() {
    let many = |count: usize| {
        let name = |number: usize| format!("tool_{}_{number:05}", "x".repeat(80));
        let tools = (0..count).map(|number| Tool::named(&name(number)));
        tools.fold(Scripted::modern(), Scripted::tool).start()
    };
    let (few, all) = (many(100), many(10_000));
    // With a policy, the gateway itself looks for an unknown name.
    let policy = "tools: {deny: [never]}";
    let registry = Registry::new().http("few", &few.url()).with(policy).http("all", &all.url()).with(policy);
    let gateway = Gateway::of(&registry).start().await;
    eventually("all tools are read", async || {
        let servers = gateway.get("/servers").await.json()["servers"].clone();
        (servers[1].to_string().contains("10000")).then_some(())
    })
    .await;
    let cost = async |server: &str| {
        let (client, started) = (gateway.mcp_of(server), Instant::now());
        for number in 0..10 {
            let name = format!("tool_{}_y{number:05}", "x".repeat(80));
            let refused = client.call(&name, json!({})).await.json();
            assert_eq!(refused["error"]["data"]["code"], "tool_not_found");
        }
        started.elapsed()
    };
    let few = median(async || cost("few").await).await;
    let all = median(async || cost("all").await).await;
    eprintln!(
        "ten unknown names among 100 tools {few:?}, among 10,000 {all:?}: ratio {:.1}",
        ratio(all, few)
    );
    assert!(ratio(all, few) < 4.0, "{few:?} {all:?}");
}

/// A gateway over one server with hostile templates, and its address.
async fn reading() -> (Server, Running) {
    let server = Scripted::legacy()
        .offers("resources", "[]")
        .offers("resourceTemplates", &hostile_templates(100).to_string())
        .tool(Tool::named("ping"))
        .start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["ping"]).await;
    (server, gateway)
}

#[tokio::test]
async fn a_long_uri_is_refused_and_costs_what_its_bytes_cost() {
    let (server, gateway) = reading().await;
    let session = gateway.mcp().legacy().await;
    let uri = format!("db://{}!", "a".repeat(16 << 10));
    for (method, params, field) in [
        ("resources/read", json!({"uri": uri}), "params.uri"),
        ("resources/subscribe", json!({"uri": uri}), "params.uri"),
        ("completion/complete", json!({"ref": {"type": "ref/resource", "uri": uri}}), "params.ref.uri"),
    ] {
        let refused = session.request(method, params).await.json()["error"].clone();
        assert!(refused["message"].to_string().contains("16390 bytes; a URI has at most 8192"), "{refused}");
        assert!(refused["data"].to_string().contains(field), "{refused}");
    }
    let cost = async |method: &str, params: Value| {
        let started = Instant::now();
        for _ in 0..20 {
            session.request(method, params.clone()).await;
        }
        started.elapsed()
    };
    let plain = median(async || cost("ping", json!({"_meta": {"x": uri}})).await).await;
    let long = median(async || cost("resources/read", json!({"uri": uri})).await).await;
    eprintln!("20 pings of that size {plain:?}, 20 reads {long:?}: ratio {:.1}", ratio(long, plain));
    assert!(ratio(long, plain) < 4.0, "{plain:?} {long:?}");
    assert_eq!(server.seen_calling("resources/read").len(), 0);
}

#[tokio::test]
async fn keys_with_escapes_cost_no_more_than_plain_ones() {
    let (_server, gateway) = reading().await;
    let session = gateway.mcp().legacy().await;
    let keys = |start: &str| {
        let members = (0..50_000).map(|number| format!(r#","{start}{number:09}":0"#));
        members.collect::<Vec<_>>().concat()
    };
    let cost = async |params: String| {
        let started = Instant::now();
        session.request_text("tools/call", &params).await;
        started.elapsed()
    };
    let (escaped, plain) = (keys(r"\u006eame"), keys("0006eename"));
    let forms: [fn(&str) -> String; 3] = [
        |keys| format!(r#"{{"name":"none","arguments":{{"a":0{keys}}}}}"#),
        |keys| format!(r#"{{"name":"none"{keys}}}"#),
        |keys| format!(r#"{{"name":"none","_meta":{{"a":0{keys}}}}}"#),
    ];
    for form in forms {
        let usual = median(async || cost(form(&plain)).await).await;
        let took = median(async || cost(form(&escaped)).await).await;
        let (length, place) = (form(&escaped).len(), &form(&escaped)[..30]);
        eprintln!(
            "{length} bytes, {place}…: {took:?}, plain keys {usual:?}: ratio {:.1}",
            ratio(took, usual)
        );
        assert!(ratio(took, usual) < 3.0, "{place}: {took:?} {usual:?}");
    }
}

#[tokio::test]
async fn probes_do_not_wait_while_lists_are_searched_and_printed() {
    let tool = |number: usize| {
        let name = format!("tool{number:04}");
        let schema = json!({"type": "object"});
        let definition = json!({"name": name, "description": "d".repeat(3_000), "inputSchema": schema});
        Tool::defined(&name, &definition.to_string())
    };
    let server = (0..3_000).map(tool).fold(Scripted::modern(), Scripted::tool).start();
    let gateway = Gateway::of(&Registry::new().http("many", &server.url())).start().await;
    eventually("all tools are read", async || {
        let servers = gateway.get("/servers").await.json()["servers"].clone();
        (servers[0]["tool_count"] == 3_000).then_some(())
    })
    .await;
    for query in ["x+dd+ddd+dddd", "tool"] {
        let read = async || {
            let (started, path) = (Instant::now(), format!("/api/v1/mcp/tools?query={query}"));
            assert_eq!(Line::to(&gateway.address).send("GET", &path, &[], b"").await.status, 200);
            started.elapsed()
        };
        let alone = median(read).await;
        let readers = async {
            loop {
                tokio::join!(read(), read(), read(), read());
            }
        };
        let mut times = Vec::new();
        let probes = async {
            let mut probe = Line::to(&gateway.address);
            let started = Instant::now();
            while started.elapsed() < Duration::from_secs(5) {
                let asked = Instant::now();
                assert_eq!(probe.send("GET", "/health/live", &[], b"").await.status, 200);
                times.push(asked.elapsed());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = readers => {}
            () = probes => {}
        }
        times.sort_unstable();
        let usual = times[times.len() / 2];
        eprintln!(
            "one search for {query} {alone:?}, probes beside four {usual:?}: ratio {:.2}",
            ratio(usual, alone)
        );
        assert!(ratio(usual, alone) < 0.2, "{usual:?} {alone:?}");
    }
}

#[tokio::test]
async fn unread_lists_of_the_rest_api_share_one_text_and_are_charged() {
    const PATHS: [&str; 3] = ["tools", "servers/many/tools", "servers"];
    let tool = |number: usize| {
        let name = format!("tool{number:04}");
        let schema = json!({"type": "object"});
        let definition = json!({"name": name, "description": "d".repeat(2_000), "inputSchema": schema});
        Tool::defined(&name, &definition.to_string())
    };
    let server = (0..500).map(tool).fold(Scripted::modern(), Scripted::tool).start();
    let registry = Registry::new().http("many", &server.url()).setting("server: {memory_budget: 64 MiB}");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["tool0000", "tool0499"]).await;
    let unread = async |count| {
        let mut open = Vec::new();
        for number in 0..count {
            let get = format!("GET /api/v1/mcp/{} HTTP/1.1\r\nhost: localhost\r\n\r\n", PATHS[number % 3]);
            open.push(silent(&gateway.address, get.repeat(5).as_bytes()).await);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        open
    };
    drop(unread(6).await);
    let warm = gateway.resident_memory() >> 20;
    let open = unread(300).await;
    let started = Instant::now();
    let metrics = gateway.mcp().to(&gateway.url("/metrics")).bare(Method::GET, &[]).await.body;
    let slow = started.elapsed();
    let line = metrics.lines().find_map(|line| line.strip_prefix("switchyard_memory_used_bytes "));
    let used: u64 = line.expect("a metric").parse().expect("a number");
    let grown = (gateway.resident_memory() >> 20).saturating_sub(warm);
    eprintln!(
        "{} unread lists of 1 MB: {grown} MiB (2,000 of a longer list took 796 MiB before), {} KiB charged, metrics after {slow:?}",
        open.len(),
        used >> 10
    );
    assert!(grown < 48, "{grown} MiB");
    assert!(used > 1 << 20, "{used} bytes are charged");
}

//! Lists over REST: search, pages and entity tags of tools, resources and prompts; reading resources and prompts.
//!
//! Not here: calls (`rest`, `rest_streams`).

use serde_json::{Value, json};

use crate::support::gateway::{Gateway, Running};
use crate::support::scripted::{Scripted, Server, Tool};

const TOOLS: [(&str, &str, &str); 4] = [
    ("close", "Close", "ends an issue"),
    ("create_issue", "Create", "opens a ticket"),
    ("issue", "Show", "shows one"),
    ("list", "All issues", "lists them"),
];

fn tool((name, title, description): (&str, &str, &str)) -> Tool {
    let definition =
        json!({"name": name, "title": title, "description": description, "inputSchema": {"type": "object"}});
    Tool::defined(name, &definition.to_string())
}

async fn gateway() -> (Running, [Server; 2]) {
    let issues = TOOLS.into_iter().fold(Scripted::modern(), |server, one| server.tool(tool(one)));
    let notes = Scripted::modern()
        .tool(Tool::named("write"))
        .offers("resources", r#"[{"uri":"memo:a","name":"first"},{"uri":"memo:b","name":"second"}]"#)
        .offers("resourceTemplates", r#"[{"uriTemplate":"memo:{id}","name":"any"}]"#)
        .offers("prompts", r#"[{"name":"greet","description":"says hello"}]"#)
        .answers("resources/read", vec![
            r#"{"resultType":"complete","contents":[{"uri":"memo:a","text":"A"}],"ttlMs":0,"cacheScope":"private"}"#.to_owned(),
        ])
        .answers("prompts/get", vec![r#"{"resultType":"complete","messages":[]}"#.to_owned()]);
    let servers = [issues.start(), notes.start()];
    let [issues, notes] = &servers;
    let yaml =
        format!("mcp_servers:\n  issues:\n    url: {}\n  notes:\n    url: {}\n", issues.url(), notes.url());
    let gateway = Gateway::with_config(&yaml).start().await;
    gateway.offers(&["write", "list"]).await;
    (gateway, servers)
}

fn names(list: &Value, member: &str) -> Vec<String> {
    let items = list[member].as_array().unwrap_or_else(|| panic!("{list}"));
    items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn a_query_finds_names_titles_and_descriptions_best_first() {
    let (gateway, _servers) = gateway().await;
    let found = gateway.get("/tools?query=ISSUE").await.json();
    assert_eq!(names(&found, "tools"), ["issue", "create_issue", "list", "close"]);
    let both = gateway.get("/tools?query=issue%20opens").await.json();
    assert_eq!(names(&both, "tools"), ["create_issue"]);
    let of_server = gateway.get("/tools?server=notes").await.json();
    assert_eq!(names(&of_server, "tools"), ["write"]);
    let unknown = gateway.get("/tools?server=note").await;
    assert_eq!((unknown.status, &unknown.json()["code"]), (404, &json!("server_not_found")));
}

#[tokio::test]
async fn pages_together_are_the_whole_list() {
    let (gateway, _servers) = gateway().await;
    let whole = names(&gateway.get("/tools").await.json(), "tools");
    let (mut paged, mut route) = (Vec::new(), "/tools?limit=2".to_owned());
    loop {
        let page = gateway.get(&route).await.json();
        assert!(names(&page, "tools").len() <= 2);
        paged.extend(names(&page, "tools"));
        let Some(next) = page["next_cursor"].as_str() else { break };
        assert_eq!(next.len(), 32, "it fits into a head, however long a name is");
        route = format!("/tools?limit=2&cursor={next}");
    }
    assert_eq!(paged, whole);
    for wrong in ["limit=0", "limit=1001", "limit=x", "cursor=nothing", "sort=name"] {
        let refused = gateway.get(&format!("/tools?{wrong}")).await;
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("invalid_request")), "{wrong}");
    }
    let long = gateway.get(&format!("/tools?query={}", "x".repeat(257))).await;
    assert_eq!(long.status, 400);
}

#[tokio::test]
async fn a_list_that_is_known_is_not_sent_again() {
    let (gateway, [issues, _notes]) = gateway().await;
    for route in ["/tools", "/tools?limit=1", "/servers/issues/tools", "/resources", "/prompts"] {
        let first = gateway.get(route).await;
        let tag = first.header("etag").expect("a tag").to_owned();
        let client = gateway.mcp().to(&gateway.url(&format!("/api/v1/mcp{route}")));
        let again = client.bare(http::Method::GET, &[("if-none-match", &format!("\"x\", W/{tag}"))]).await;
        assert_eq!((again.status, again.header("etag")), (304, Some(&*tag)), "{route}");
        let other = client.bare(http::Method::GET, &[("if-none-match", "\"x\"")]).await;
        assert_eq!(other.status, 200);
    }
    let before = gateway.get("/tools").await.header("etag").map(str::to_owned);
    issues.change_tools(vec![tool(("other", "Other", "is new"))]);
    assert_eq!(gateway.post("/servers/issues/reconnect", "{}").await.status, 200);
    assert_ne!(gateway.get("/tools").await.header("etag").map(str::to_owned), before);
}

#[tokio::test]
async fn resources_and_prompts_are_listed_and_read() {
    let (gateway, _servers) = gateway().await;
    let resources = gateway.get("/resources").await.json();
    assert_eq!(names(&resources, "items"), ["memo:a", "memo:b"]);
    assert_eq!(resources["items"][0]["server"], "notes");
    assert_eq!(names(&gateway.get("/resources?query=second").await.json(), "items"), ["memo:b"]);
    assert_eq!(names(&gateway.get("/resources/templates").await.json(), "items"), ["memo:{id}"]);
    assert_eq!(names(&gateway.get("/prompts").await.json(), "items"), ["greet"]);
    let read = gateway.post("/resources/read", r#"{"uri":"memo:a"}"#).await;
    assert_eq!(read.status, 200, "{read:?}");
    let read = read.json();
    assert_eq!((&read["server"], &read["result"]["contents"][0]["text"]), (&json!("notes"), &json!("A")));
    assert!(read["duration_ms"].is_number() && read["request_id"].is_string());
    let got = gateway.post("/prompts/greet", r#"{"arguments":{"who":"Ann"}}"#).await.json();
    assert_eq!((&got["server"], &got["result"]["messages"]), (&json!("notes"), &json!([])));
    for (route, body, expected) in [
        ("/prompts/nobody", "{}", (404, "not_found")),
        ("/prompts/greet", r#"{"arguments":7}"#, (400, "invalid_request")),
        ("/resources/read", r#"{"url":"memo:a"}"#, (400, "invalid_request")),
        ("/resources/read", "{}", (400, "invalid_request")),
    ] {
        let answer = gateway.post(route, body).await;
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (expected.0, Some(expected.1)),
            "{route} {body}"
        );
    }
}

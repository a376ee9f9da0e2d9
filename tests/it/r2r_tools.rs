//! R2R's tools through the whole program: over REST and over MCP in both eras, before an R2R that
//! answers as it was recorded.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::client::{MODERN, client_info};
use crate::support::gateway::Running;
use crate::support::r2r::{Fault, KEY, R2r};
use crate::support::{Gateway, Registry, at_once};

const TEXTS: [(&str, &str); 5] = [
    ("install.md", "Install the gateway on Debian with the package. It listens on port 9000."),
    ("tokens.md", "Access tokens expire after one hour. They are renewed five minutes before."),
    ("backups.md", "Backups are taken every night at two and kept for thirty days."),
    ("alerts.md", "An alert wakes the person on call, who answers within ten minutes."),
    ("billing.md", "Invoices are sent on the first day of a month to the customer."),
];

fn registry(r2r: &R2r, folder: &TempDir) -> Registry {
    let mapping = folder.path().join("collections.json");
    let options =
        format!("r2r: {{api_key: {KEY:?}, project: my-app, collection_mapping_file: {}}}", mapping.display());
    let lines =
        ["transport: builtin".to_owned(), "builtin: r2r".to_owned(), format!("url: {}", r2r.url()), options];
    Registry::new().server("r2r", &lines)
}

/// Puts the texts where the gateway's own collection is.
async fn fill(r2r: &R2r, gateway: &Running) {
    let made = gateway.call("r2r", "r2r_list_documents", json!({})).await;
    assert_eq!(made.json()["data"]["total"], 0, "{made:?}");
    let collections = r2r.collections();
    let own = collections.iter().find(|one| one["name"] == "claude-code-my-app").expect("it was made");
    let own = own["id"].as_str().expect("an id");
    for (name, text) in TEXTS {
        let file = reqwest::multipart::Part::text(text).file_name(name);
        let ids = json!([own]).to_string();
        let metadata = json!({"collection_ids": [own], "name": name}).to_string();
        let form = reqwest::multipart::Form::new();
        let form = form.part("file", file).text("collection_ids", ids).text("metadata", metadata);
        let sent = reqwest::Client::new().post(format!("{}/v3/documents", r2r.url()));
        let sent = sent.bearer_auth(KEY).multipart(form).send().await.expect("sent");
        assert_eq!(sent.status().as_u16(), 202, "{name}");
    }
}

async fn serving() -> (R2r, TempDir, Running) {
    let (r2r, folder) = (R2r::start(), tempfile::tempdir().expect("a folder"));
    let gateway = Gateway::of(&registry(&r2r, &folder)).start().await;
    gateway.offers(&["r2r_search", "r2r_rag_query"]).await;
    fill(&r2r, &gateway).await;
    (r2r, folder, gateway)
}

#[tokio::test]
async fn programs_search_ask_and_list_over_rest() {
    let (r2r, _folder, gateway) = serving().await;
    for (question, expected) in [
        ("how long do access tokens live before they expire", "tokens.md"),
        ("when are backups taken", "backups.md"),
        ("which port does the gateway listen on", "install.md"),
        ("who answers an alert", "alerts.md"),
        ("when are invoices sent to a customer", "billing.md"),
    ] {
        let found = gateway.call("r2r", "r2r_search", json!({"query": question})).await.json();
        assert_eq!(found["data"]["results"][0]["title"], expected, "{question}: {found}");
        let again = gateway.call("r2r", "r2r_search", json!({"query": question})).await.json();
        assert_eq!((&found["data"]["cached"], &again["data"]["cached"]), (&json!(false), &json!(true)));
    }
    assert_eq!(r2r.count("POST /v3/retrieval/search"), 5);
    let asked = json!({"question": "when do access tokens expire"});
    let answer = gateway.call("r2r", "r2r_rag_query", asked).await.json();
    assert!(answer["data"]["answer"].as_str().is_some_and(|text| text.contains("one hour")), "{answer}");
    assert_eq!(answer["data"]["sources"][0]["document"], "tokens.md");
    let refused = gateway.call("r2r", "r2r_search", json!({"query": "x", "limit": 0})).await.json();
    assert_eq!(
        (&refused["success"], &refused["data"]["field"]),
        (&json!(false), &json!("limit")),
        "{refused}"
    );
    let all = gateway.call("r2r", "r2r_list_collections", json!({})).await.json();
    let own = all["data"]["collections"].as_array().expect("a list").iter();
    let own = own.filter(|one| one["name"] == "claude-code-my-app").collect::<Vec<_>>();
    assert_eq!((own.len(), &own[0]["document_count"]), (1, &json!(5)));
}

#[tokio::test]
async fn a_question_that_was_sent_is_put_once_and_counts_once() {
    let (r2r, _folder, gateway) = serving().await;
    r2r.fail_next("/retrieval/rag", 100, Fault::Status(500));
    for asked in 1..=2 {
        let question = json!({"question": format!("question {asked}")});
        let failed = gateway.call("r2r", "r2r_rag_query", question).await;
        assert_ne!(failed.status, 200, "{failed:?}");
        assert_eq!(r2r.count("POST /v3/retrieval/rag"), asked, "each answer is paid for");
    }
    let found = gateway.call("r2r", "r2r_search", json!({"query": "backups"})).await;
    assert_eq!(found.status, 200, "the breaker is closed: {found:?}");
}

/// Parameters of a call with a progress token.
fn with_progress(tool: &str, arguments: &Value) -> Value {
    json!({"name": tool, "arguments": arguments, "_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": client_info(),
        "progressToken": "grow",
    }})
}

#[tokio::test]
async fn json_in_the_place_of_a_stream_is_the_answer_and_the_question_is_paid_for_once() {
    let (r2r, _folder, gateway) = serving().await;
    let arguments = json!({"question": "when do access tokens expire", "model": "stub-no-stream"});
    let answer = gateway.mcp().modern("tools/call", with_progress("r2r_rag_query", &arguments)).await;
    let result = answer.result();
    assert_eq!(result["isError"], false, "{result}");
    assert!(
        result["structuredContent"]["answer"].as_str().is_some_and(|text| text.contains("hour")),
        "{result}"
    );
    assert_eq!(r2r.count("POST /v3/retrieval/rag"), 1, "each answer is paid for");
}

#[tokio::test]
async fn a_modern_client_sees_the_answer_grow_and_reads_the_resources() {
    let (_r2r, _folder, gateway) = serving().await;
    let client = gateway.mcp();
    let params = with_progress("r2r_rag_query", &json!({"question": "when do access tokens expire"}));
    let answer = client.modern("tools/call", params).await;
    let said = answer.notifications();
    let result = answer.result();
    let last = said.last().unwrap_or_else(|| panic!("no progress: {answer:?}"));
    assert_eq!(last["params"]["progressToken"], "grow");
    assert_eq!(last["params"]["message"], result["structuredContent"]["answer"]);
    assert_eq!(result["isError"], false);
    let read = async |uri: &str| {
        let result = client.modern("resources/read", json!({"uri": uri})).await.result();
        assert_eq!(result["cacheScope"], "private");
        serde_json::from_str::<Value>(result["contents"][0]["text"].as_str().expect("text")).expect("JSON")
    };
    let context = read("r2r://current-project/context").await;
    assert_eq!((&context["document_count"], &context["project_name"]), (&json!(5), &json!("my-app")));
    let history = read("r2r://search/history").await;
    assert_eq!(history["queries"][0]["query"], "when do access tokens expire");
}

#[tokio::test]
async fn legacy_clients_each_have_a_history_of_their_own() {
    let (_r2r, _folder, gateway) = serving().await;
    let (one, other) = (gateway.mcp().legacy().await, gateway.mcp().legacy().await);
    let found = one.call("r2r_search", json!({"query": "backups"})).await.result();
    assert_eq!(found["structuredContent"]["results"][0]["title"], "backups.md", "{found}");
    for (session, expected) in [(&one, json!("backups")), (&other, Value::Null)] {
        let history =
            session.request("resources/read", json!({"uri": "r2r://search/history"})).await.result();
        let history: Value =
            serde_json::from_str(history["contents"][0]["text"].as_str().expect("text")).expect("JSON");
        assert_eq!(history["queries"][0]["query"], expected);
    }
}

/// The state of the breaker of `r2r`, and the failures that it counted.
async fn breaker(gateway: &Running) -> (String, u64) {
    let breakers = gateway.get("/circuit-breakers").await.json();
    let found = breakers["circuit_breakers"].as_array().expect("a list");
    let own = found.iter().find(|one| one["server"] == "r2r").expect("its breaker");
    (own["state"].as_str().expect("a state").to_owned(), own["failure_count"].as_u64().expect("a number"))
}

#[tokio::test]
async fn service_that_answers_5xx_or_nothing_opens_the_breaker() {
    let search = "POST /v3/retrieval/search";
    at_once([Fault::Status(500), Fault::Status(507), Fault::Hang], async |fault| {
        let (r2r, _folder, gateway) = serving().await;
        r2r.fail_next("/retrieval/search", 100, fault.clone());
        for number in 0..5 {
            let body = json!({"server": "r2r", "tool": "r2r_search", "arguments": {"query": format!("q{number}")}, "timeout": 5});
            let answer = gateway.post("/call", &body.to_string()).await;
            assert_ne!(answer.status, 200, "{answer:?}");
            if breaker(&gateway).await.0 == "open" {
                break;
            }
        }
        assert_eq!(breaker(&gateway).await.0, "open", "{fault:?}");
        let before = r2r.count(search);
        let refused = gateway.call("r2r", "r2r_search", json!({"query": "later"})).await;
        assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("circuit_open")), "{refused:?}");
        assert_eq!(r2r.count(search), before, "nothing is sent");
    })
    .await;
}

#[tokio::test]
async fn answers_are_made_from_five_passages_by_meaning() {
    let (r2r, _folder, gateway) = serving().await;
    gateway.call("r2r", "r2r_rag_query", json!({"question": "when do access tokens expire"})).await;
    let seen = r2r.seen();
    let asked = seen.iter().rfind(|request| request.path == "/v3/retrieval/rag").expect("it was asked");
    let asked: Value = serde_json::from_str(&asked.body).expect("JSON");
    let settings = &asked["search_settings"];
    assert_eq!((&settings["limit"], &settings["use_semantic_search"]), (&json!(5), &json!(true)), "{asked}");
    assert!(
        settings.get("use_hybrid_search").is_none() && settings.get("use_fulltext_search").is_none(),
        "{asked}"
    );
}

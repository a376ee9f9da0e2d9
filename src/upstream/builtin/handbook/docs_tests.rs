//! The documentation that comes with the repository: its links lead somewhere, and a question about
//! Switchyard is answered by the right page.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::fixture::*;
use super::markdown;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

/// What people ask, and the document that answers it; two where either does.
const QUESTIONS: &[(&str, &str)] = &[
    ("how do I add a server", "servers"),
    ("what happens when a server is down", "resilience"),
    ("reset circuit breaker", "resilience"),
    ("connect Claude Code", "mcp-endpoint|getting-started"),
    ("how do I call a tool with curl", "getting-started"),
    ("two servers have a tool with the same name", "naming"),
    ("tool name is too long", "naming"),
    ("which tool calls are retried", "resilience"),
    ("how long does a call wait before it times out", "resilience|troubleshooting"),
    ("status code 429", "rest-api"),
    ("what does outcome_unknown mean", "troubleshooting"),
    ("problem document codes", "rest-api"),
    ("graceful shutdown SIGTERM", "operations"),
    ("kubernetes readiness probe", "operations"),
    ("where are the logs", "operations"),
    ("change the port", "operations"),
    ("environment variable not set in config", "troubleshooting|configuration"),
    ("npx server does not start", "troubleshooting"),
    ("claude mcp list says failed to connect", "troubleshooting"),
    ("address already in use", "troubleshooting"),
    ("a tool is missing from tools/list", "troubleshooting"),
    ("search my own markdown files", "handbook"),
    ("n_results", "handbook"),
    ("why is my document not found by search", "handbook"),
    ("use switchyard from my own axum program", "library"),
    ("Manager::initialize", "library"),
    ("mcp session id expires", "mcp-endpoint"),
    ("use it over stdin and stdout", "mcp-endpoint"),
    ("which protocol versions are supported", "mcp-endpoint"),
    ("serve only one server", "mcp-endpoint"),
    ("disable a server", "servers"),
    ("hide a dangerous tool", "servers"),
    ("pass an API token to a server", "servers|configuration"),
    ("limit concurrent calls", "servers|configuration"),
    ("health check interval", "resilience|configuration"),
    ("connection_pool_size", "resilience|configuration"),
    ("check the config file", "getting-started|configuration"),
    ("how to build and run", "getting-started"),
    ("list_changed notification", "mcp-endpoint"),
    ("server__tool", "naming"),
    ("curcuit braker", "resilience"),
    ("can I have two handbooks", "handbook"),
    ("does it follow symlinks", "handbook"),
    ("how do I ask for a whole document", "handbook"),
    ("why was my call not retried", "resilience"),
    ("exponential backoff jitter", "resilience"),
    ("half-open probe", "resilience"),
    ("is a slow server slowing down the others", "resilience"),
    ("server keeps crashing and restarting", "servers|resilience"),
    ("does the child process inherit my environment", "servers"),
    ("SSE transport", "servers"),
    ("redirects and headers passed to upstream", "servers"),
    ("systemd unit", "operations"),
    ("debug log level", "operations"),
    ("request id", "rest-api"),
    ("content and structuredContent in the response", "rest-api"),
    ("openapi swagger", "rest-api|getting-started"),
    ("python client example", "mcp-endpoint"),
    ("cancel a running call", "mcp-endpoint"),
    ("JSON-RPC error -32602", "mcp-endpoint|naming"),
    ("names changed after restart", "naming"),
    ("what is a catalog", "README"),
    ("exit code 2", "getting-started"),
    ("429 overloaded", "troubleshooting|rest-api"),
    ("host not allowed", "troubleshooting|security"),
    ("maximum request body size", "operations|configuration"),
];

#[tokio::test]
async fn questions_are_answered_by_the_right_page() {
    let handbook = open(&docs(), 0).await.expect("the documentation is there");
    let (mut first, mut late, mut wrong) = (0, 0, Vec::new());
    for (question, expected) in QUESTIONS {
        let answer = call(&handbook, "search_handbook", &json!({"query": question})).await;
        let hits = answer["structuredContent"]["hits"].as_array().cloned().unwrap_or_default();
        let page = |hit: &serde_json::Value| hit["metadata"]["path"].as_str().unwrap_or_default().to_owned();
        let pages: Vec<String> = hits.iter().map(page).collect();
        let place = pages
            .iter()
            .position(|path| expected.split('|').any(|page| path.split('#').next() == Some(page)));
        first += usize::from(place == Some(0));
        if place != Some(0) {
            wrong.push(format!("{question:?} {place:?}: {:?}", &pages[..pages.len().min(3)]));
        }
        late += usize::from(place.is_none_or(|place| place > 2));
    }
    eprintln!("{first} of {} first; not first: {wrong:#?}", QUESTIONS.len());
    assert_eq!(late, 0, "not among the first three: {wrong:#?}");
    assert!(first * 100 >= QUESTIONS.len() * 90, "{first} of {} are first: {wrong:#?}", QUESTIONS.len());
}

#[test]
fn links_of_the_documentation_lead_somewhere() {
    let mut anchors: HashMap<PathBuf, Vec<String>> = HashMap::new();
    let mut links = 0;
    let files = fs::read_dir(docs()).expect("readable").map(|entry| entry.expect("an entry").path());
    for page in files.filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(&page).expect("text");
        for link in links_of(&text).filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { docs().join(file) };
            let known = anchors.entry(target.clone()).or_insert_with(|| anchors_of(&target));
            let leads = anchor.is_empty() || known.iter().any(|known| known == anchor);
            assert!(leads, "{}: {link} leads nowhere; there is {known:?}", page.display());
            links += 1;
        }
    }
    assert!(links > 20, "only {links} links were found");
}

fn links_of(text: &str) -> impl Iterator<Item = String> + '_ {
    pulldown_cmark::Parser::new(text).filter_map(|event| match event {
        pulldown_cmark::Event::Start(pulldown_cmark::Tag::Link { dest_url, .. }) => {
            Some(dest_url.to_string())
        }
        _ => None,
    })
}

fn anchors_of(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    markdown::outline(&text).sections.into_iter().map(|section| section.anchor).collect()
}

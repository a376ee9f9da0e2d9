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

/// What people ask who have not read the page, in words that are not those of the page. All were written
/// before their answers were seen, and nothing was changed for them.
const IN_OTHER_WORDS: &[(&str, &str)] = &[
    ("can I put a password on it", "security"),
    ("somebody should only look at the tools and not run them", "security"),
    ("my program hangs forever waiting for an answer", "resilience|troubleshooting|rest-api"),
    ("stop hammering a dead backend", "resilience"),
    ("two backends both expose something called search", "naming"),
    ("browser page gets blocked by CORS", "security"),
    ("ship the log to a file as JSON", "operations"),
    ("where do I put my GitHub credentials for an upstream", "servers|security"),
    ("is it safe to run the same call twice", "resilience"),
    ("embed the gateway in my Rust web app", "library"),
    ("how fast is it and what overhead does it add", "performance"),
    ("give the model a folder of runbooks", "handbook"),
    ("put https in front of it", "security"),
    ("an editor that launches a command and talks to it", "mcp-endpoint"),
    ("abort something that takes too long", "mcp-endpoint"),
    ("the model wants to ask the user something in the middle of a call", "mcp-endpoint"),
    ("port 8080 is taken", "troubleshooting|operations"),
    ("I made a typo in the yaml, how do I find it", "troubleshooting|configuration|getting-started"),
    ("a job that runs for an hour: fetch the result later", "mcp-endpoint"),
    ("get rid of a tool that deletes files", "servers"),
    ("what should I watch to know that everything is alright", "operations|resilience|rest-api"),
    ("the connection dropped in the middle of an answer", "mcp-endpoint"),
    ("can two people have different rights", "security"),
    ("run it on a machine so that it comes back after a reboot", "operations"),
    ("who is allowed to reach it from another computer", "security|operations"),
    ("is the data encrypted on the way", "security"),
    ("my tool needs five minutes", "troubleshooting|resilience|rest-api"),
    ("give a tool another name", "naming|servers"),
    ("how many tries does it make before giving up", "resilience"),
    ("I want JSON from the shell and not MCP", "getting-started|rest-api"),
    ("does it keep anything on disk", "operations"),
    ("an upstream asks for a login token", "servers|security"),
    ("which dates of the specification does it understand", "mcp-endpoint"),
    ("find out what went wrong with one particular request", "rest-api|operations|troubleshooting"),
    ("the list of tools changes while I am connected", "mcp-endpoint"),
    ("how do I look things up in our own wiki pages", "handbook"),
    ("too many requests at the same time", "troubleshooting|servers|operations|resilience"),
    ("cut off an upload that is too big", "operations|rest-api"),
    ("turn one of them off for a while", "servers"),
    ("use it as a crate", "library"),
];

#[tokio::test]
async fn questions_are_answered_by_the_right_page() {
    are_answered(QUESTIONS, 90, 100).await;
}

/// A search for words can not do better than find some of them: what means the same is another word to it.
#[tokio::test]
async fn questions_in_other_words_are_often_answered_by_one_of_the_first_three() {
    are_answered(IN_OTHER_WORDS, 30, 55).await;
}

/// So many of a hundred by the first hit, and so many by one of the first three.
async fn are_answered(questions: &[(&str, &str)], by_the_first: usize, by_three: usize) {
    let handbook = open(&docs(), 0).await.expect("the documentation is there");
    let (mut first, mut late, mut wrong) = (0, 0, Vec::new());
    for (question, expected) in questions {
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
    eprintln!("{first} of {} first, {late} not among the first three: {wrong:#?}", questions.len());
    let share = |count: usize| count * 100 / questions.len();
    let three = questions.len() - late;
    assert!(share(three) >= by_three, "{three} of {} among the first three: {wrong:#?}", questions.len());
    assert!(share(first) >= by_the_first, "{first} of {} are first: {wrong:#?}", questions.len());
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

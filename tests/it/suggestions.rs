//! Suggestions for names that do not exist, through the whole program: the right one, or none.
//!
//! The list of misspelled names is the one that the threshold was chosen with (`settings::nearest`).

use serde_json::{Value, json};

use crate::support::line::Line;
use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry, Running};

const TYPOS: &str = include_str!("typos.txt");

/// Posts `body` to `/call`; returns the answer.
async fn refused(line: &mut Line, body: &Value) -> Value {
    let told = line.post("/api/v1/mcp/call", &[], body.to_string().as_bytes()).await;
    serde_json::from_str(&told.body).unwrap_or_else(|_| panic!("{told:?}"))
}

// Issue 18, item 11: before, 100 of 100 names got a suggestion, `weather` among them.
#[tokio::test]
async fn a_hundred_misspelled_tools_get_the_tool_that_was_meant_or_none() {
    let (typos, names) = TYPOS.split_once("--\n").expect("two parts");
    let scripted = names.lines().fold(Scripted::modern(), |server, name| server.tool(Tool::named(name)));
    let server = scripted.start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["search_handbook"]).await;
    let mut line = Line::to(&gateway.address);
    let (mut given, mut right, mut meant_any, mut wrong) = (0, 0, 0, Vec::new());
    for typo in typos.lines().filter(|line| !line.starts_with('#')) {
        let (asked, meant) = typo.split_once(' ').expect("two names");
        let told = refused(&mut line, &json!({"tool": asked, "arguments": {}})).await;
        assert_eq!(told["code"], "tool_not_found", "{told}");
        let found = told["nearest"][0].as_str().unwrap_or("-");
        given += u32::from(found != "-");
        meant_any += u32::from(meant != "-");
        right += u32::from(found == meant && found != "-");
        if found != meant {
            wrong.push(format!("{asked}: {found}, not {meant}"));
        }
    }
    let (precision, recall) = (f64::from(right) / f64::from(given), f64::from(right) / f64::from(meant_any));
    eprintln!("precision {precision:.3}, recall {recall:.3}; {wrong:#?}");
    assert!(precision >= 0.98 && recall >= 0.97, "precision {precision:.3}, recall {recall:.3}");
}

async fn with_a_handbook() -> Running {
    let book = ["transport: builtin", "builtin: handbook", "handbook: {path: docs}"].map(str::to_owned);
    let server = Scripted::modern().tool(Tool::named("fetch")).start();
    let registry = Registry::new().server("book", &book).http("browser", &server.url());
    let gateway = Gateway::of(&registry);
    std::fs::create_dir(gateway.folder().join("docs")).expect("a folder");
    std::fs::write(gateway.folder().join("docs/a.md"), "# A\nText.\n").expect("a file");
    let running = gateway.start().await;
    running.offers(&["fetch", "search_handbook"]).await;
    running
}

#[tokio::test]
async fn servers_members_and_arguments_get_the_name_that_was_meant_or_none() {
    let gateway = with_a_handbook().await;
    let mut line = Line::to(&gateway.address);
    for (body, meant) in [
        (json!({"server": "browsr", "tool": "fetch"}), Some("browser")),
        (json!({"server": "weather", "tool": "fetch"}), None),
        (json!({"tool": "weather"}), None),
        (json!({"tool": "run_shell"}), None),
        (json!({"tool": "fetch", "argumets": {}}), Some("arguments")),
        (json!({"tool": "fetch", "name": "x"}), None),
        (json!({"tool": "search_handbook", "arguments": {"qeury": "x"}}), Some("query")),
        (json!({"tool": "search_handbook", "arguments": {"query": "x", "limit": 5}}), None),
    ] {
        let told = refused(&mut line, &body).await;
        let text = told.to_string();
        let is_suggested = text.contains("did you mean") || told.get("nearest").is_some();
        assert_eq!(is_suggested, meant.is_some(), "{body}: {text}");
        assert!(meant.is_none_or(|meant| text.contains(meant)), "{body}: {text}");
    }
}

#[test]
fn keys_and_words_of_a_configuration_get_the_name_that_was_meant_or_none() {
    for (lines, meant) in [
        ("url: http://localhost/mcp, time_out: 5", Some("timeout")),
        ("url: http://localhost/mcp, retryAttempts: 5", Some("retry_attempts")),
        ("url: http://localhost/mcp, weather: 5", None),
        ("url: http://localhost/mcp, transport: htttp", Some("http")),
        ("url: http://localhost/mcp, transport: websocket", None),
        ("url: http://localhost/mcp, name: x", None),
    ] {
        let file = format!("mcp_servers:\n  one: {{{lines}}}\n");
        let output = Gateway::with_config(&file).output(&["check", "mcp_servers.yaml"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{lines}");
        let hint = meant.map(|meant| format!("did you mean `{meant}`?"));
        assert_eq!(told.contains("did you mean"), hint.is_some(), "{lines}: {told}");
        assert!(hint.is_none_or(|hint| told.contains(&hint)), "{lines}: {told}");
    }
}

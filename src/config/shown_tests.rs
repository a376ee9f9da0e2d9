//! The configuration for operators: what stays, and that no secret does.

use std::env::VarError;
use std::path::Path;

use serde_json::{Value, json};

use crate::config::Config;

fn shown(yaml: &str) -> (String, Value) {
    let environment = |name: &str| match name {
        "TOKEN" => Ok("s3cret-of-the-environment".to_owned()),
        "HOME" => Ok("/home/ann".to_owned()),
        "PORT" => Ok("8123".to_owned()),
        "SEAL_KEY" => Ok("s3cret-seal-key-of-the-environment-of-32-bytes".to_owned()),
        _ => Err(VarError::NotPresent),
    };
    let config =
        Config::parse(Path::new("tests/configs/good/every_field.yaml"), yaml.as_bytes(), &environment);
    let text = config.unwrap_or_else(|error| panic!("{error}")).shown.as_str().to_owned();
    let value = serde_json::from_str(&text).expect("JSON");
    (text, value)
}

#[test]
fn no_setting_shows_a_secret_and_all_keep_their_order_and_references() {
    let yaml = include_str!("../../tests/configs/good/every_field.yaml");
    let (text, value) = shown(yaml);
    for secret in ["s3cret", "sha256:0000", "abcdefghij", "8123"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let servers = &value["mcp_servers"];
    assert_eq!(servers["remote"]["url"], "https://***@example.org:8443/mcp?***");
    assert_eq!(servers["remote"]["headers"], json!({"X-Key": "${TOKEN}", "X-Plain": "***"}));
    assert_eq!(servers["remote"]["tools"]["rename"], json!({"read": "get"}));
    assert_eq!(servers["remote"]["tools"]["allow"], json!(["read", "list"]));
    assert!(servers["remote"]["tools"]["trusted"]["read"].to_string().contains("sha256:0f0f"), "{text}");
    assert_eq!(servers["old"]["url"], "http://localhost:${PORT}/sse");
    assert_eq!(servers["local"]["args"], json!(["--token", "${TOKEN}", "--password", "***"]));
    assert_eq!(servers["local"]["env"], json!({"TOKEN": "${TOKEN}", "PLAIN": "***"}));
    assert_eq!(value["server"]["seal_keys"], json!(["${SEAL_KEY}"]));
    assert_eq!(
        value["server"]["api_keys"][0],
        json!({"id": "ci", "role": "reader", "expires": "2027-06-30", "hash": "***"})
    );
    assert_eq!(
        (&value["server"]["header_timeout"], &value["server"]["log_level"]),
        (&json!(1), &json!("WARNING"))
    );
    let keys = [
        "\"remote\"",
        "\"old\"",
        "\"local\"",
        "\"book\"",
        "\"default_timeout\"",
        "\"cache\":{\"type\"",
        "\"server\"",
    ];
    let at: Vec<_> = keys.iter().map(|key| text.find(key).expect("a key")).collect();
    assert!(at.is_sorted(), "{text}");
}

#[test]
fn a_text_with_references_shows_the_references_only() {
    for (written, expected) in [
        ("Bearer ${TOKEN}", "Bearer ${TOKEN}"),
        ("Bearer hunter2", "***"),
        ("${TOKEN:-hunter2}", "${TOKEN:-***}"),
        ("a${TOKEN}b${secret:NAME}", "***${TOKEN}***${secret:NAME}"),
        ("$${TOKEN}", "***"),
        ("${TOKEN:-${OTHER:-hunter2}}", "${TOKEN:-***}***"),
        ("${hunter 2}", "***"),
        ("", ""),
    ] {
        assert_eq!(super::references_of(written), expected, "{written}");
    }
}

#[test]
fn arguments_and_urls_lose_their_secrets_and_nothing_else() {
    for (written, expected) in [
        ("https://example.org/mcp", "https://example.org/mcp"),
        ("https://u:p/w@example.org/mcp?key=1", "https://***@example.org/mcp?***"),
        ("https://hooks.example.org/T0AbCdEfGhIjKlMnOpQr1/x", "https://hooks.example.org/***/x"),
        ("${URL:-http://u:p@localhost:8001/mcp}", "${URL:-http://***@localhost:8001/mcp}"),
        ("@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-filesystem"),
        ("text-embedding-3-small", "text-embedding-3-small"),
        ("uses sk-abcdefghijkl for now", "uses *** for now"),
    ] {
        assert_eq!(super::public(written), expected, "{written}");
    }
    for (written, after_secret, expected) in [
        ("--api-key=hunter2", false, "--api-key=***"),
        ("--port=80", false, "--port=80"),
        ("GITHUB_TOKEN=hunter2", false, "GITHUB_TOKEN=***"),
        ("hunter2", true, "***"),
        ("--yes", false, "--yes"),
    ] {
        assert_eq!(super::argument(written, after_secret), expected, "{written}");
    }
}

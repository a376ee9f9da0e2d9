//! Whole files of clients.

use super::*;

fn of(text: &str) -> (Vec<String>, Vec<String>) {
    let read = read(text, None, None).expect("readable").expect("servers");
    let names = |members: &Members| members.iter().map(|(name, _)| name.clone()).collect();
    (names(&read.servers), names(&read.others))
}

#[test]
fn the_file_of_every_client_is_recognized_by_its_place() {
    for (text, others) in [
        (
            "model = \"x\"\n# a comment\napproval = \"never\"\n\n[mcp_servers.a]\ncommand = \"a\"\n[tui]\nx = 1\n",
            &["model", "approval", "tui"][..],
        ),
        ("\"model\" = 1\n[mcp_servers]\na = {command = \"a\"}\n", &["model"]),
        ("[\"mcp_servers\".a] # one\ncommand = \"a\"\n", &[]),
        (
            "// Zed\n/* of\n * mine */\n{\"theme\": 1, \"context_servers\": {\"a\": {\"command\": \"a\"}}}",
            &["theme"],
        ),
        ("GOOSE_MODEL: x\nextensions:\n  a: {type: stdio, cmd: a}\n", &["GOOSE_MODEL"]),
        ("name: x\nmcpServers:\n  - name: a\n    command: a\n", &["name"]),
        ("{\"mcp\": {\"servers\": {\"a\": {\"command\": \"a\"}}}}", &[]),
        ("{\"servers\": {\"a\": {\"command\": \"a\"}}, \"inputs\": []}", &[]),
        ("mcp_servers:\n  a: {command: a, connect_timeout: 1}\n", &[]),
    ] {
        let others = others.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(of(text), (vec!["a".to_owned()], others), "{text}");
    }
}

#[test]
fn a_text_without_servers_is_none() {
    for text in [
        "{\"extensions\": {\"enabled\": true}}",
        "r2r: {api_url: x}",
        "{\"mcp\": {}}",
        "model = \"x\"",
        "[tui]\n",
    ] {
        assert!(read(text, None, None).expect("readable").is_none(), "{text}");
    }
    assert_eq!(read("\n# a\n", None, None).expect_err("empty"), EMPTY);
}

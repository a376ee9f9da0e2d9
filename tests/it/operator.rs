//! The commands for a running gateway, from outside: their output in each format, their exit codes, and what servers
//! write on the terminal of a person.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::ChildStdout;

use crate::support::scripted::{Act, Refusing, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running, api_keys};

/// Clears the screen, turns the text red, and reverses its direction.
const HOSTILE: &str = "\u{1b}[2J\u{1b}[31mred\u{9b}1m \u{202e}txt";
const KEY: &str = "swy_op_0123456789abcdef0123456789abcdef0123456789abcdef";

/// Exit code, standard output and standard error of a command.
struct Ran(Option<i32>, String, String);

impl Ran {
    fn of(Output { status, stdout, stderr }: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let ran = Self(status.code(), text(stdout), text(stderr));
        eprintln!("{:?}\n{}{}", ran.0, ran.1, ran.2);
        ran
    }

    /// The output of a command that succeeded.
    #[track_caller]
    fn done(self) -> String {
        assert_eq!(self.0, Some(0), "{}{}", self.1, self.2);
        self.1
    }

    #[track_caller]
    fn json(self) -> Value {
        serde_json::from_str(&self.done()).expect("JSON")
    }
}

/// Runs a command against `gateway`, whose URL is in the environment of the command.
fn run(gateway: &Running, arguments: &[&str]) -> Ran {
    run_with_input(gateway, arguments, "")
}

fn run_with_input(gateway: &Running, arguments: &[&str], input: &str) -> Ran {
    let url = gateway.url("");
    Ran::of(gateway.gateway().output_with_input(&[arguments, &["--url", &url]].concat(), input.as_bytes()))
}

fn server() -> Scripted {
    let add = json!({"name": "add", "title": "Adder", "description": "Adds numbers.\nSlowly.",
        "annotations": {"readOnlyHint": true},
        "inputSchema": {"type": "object", "required": ["a"], "properties": {
            "a": {"type": "integer", "description": "the first"}, "note": {"type": "string"}}}});
    let progress = |done: u8| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"$TOKEN","progress":{done},"total":2,"message":"step {done}"}}}}"#
        )
    };
    let slow = Act::Paced(Duration::from_millis(50), vec![progress(1), progress(2)], Box::new(Act::Echo));
    let broken =
        r#"{"content":[{"type":"text","text":"the title is taken"}],"isError":true,"resultType":"complete"}"#;
    let structured = r#"{"content":[],"structuredContent":{"n":1e400,"z":1,"a":2},"resultType":"complete"}"#;
    let region = json!({"name": "mirrored", "inputSchema": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"}}}});
    Scripted::modern()
        .tool(Tool::defined("add", &add.to_string()))
        .tool(Tool::named("slow").does(slow))
        .tool(Tool::named("broken").does(Act::Result(broken.into())))
        .tool(Tool::named("structured").does(Act::Result(structured.into())))
        .tool(Tool::defined("mirrored", &region.to_string()))
        .offers("prompts", r#"[{"name":"review","description":"Reviews code.","arguments":[{"name":"language","required":true},{"name":"tone"}]}]"#)
        .offers("resources", r#"[{"uri":"memo:a","name":"a","mimeType":"text/plain"}]"#)
        .offers("resourceTemplates", r#"[{"uriTemplate":"memo:{id}","name":"any"}]"#)
}

async fn started(server: &Server) -> Running {
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&[]).await;
    gateway
}

#[tokio::test]
async fn servers_and_their_health_are_shown_in_each_format() {
    let server = server().start();
    let gateway = started(&server).await;
    gateway.offers(&["add"]).await;
    let status = run(&gateway, &["status"]);
    assert!(status.2.contains(": healthy, 1 of 1 servers are healthy"), "{}", status.2);
    assert!(status.done().lines().nth(1).is_some_and(|line| line.starts_with("one     ready  yes")));
    assert_eq!(run(&gateway, &["status", "--check", "-o", "json"]).json()["status"], "healthy");
    let quiet = run(&gateway, &["status", "--quiet"]);
    assert_eq!(quiet.2, "");
    let servers = run(&gateway, &["servers"]).done();
    assert!(servers.starts_with("SERVER  STATE  BREAKER  TOOLS  CALLS  ERRORS"), "{servers}");
    assert!(servers.contains("one     ready  closed   5"), "{servers}");
    assert_eq!(run(&gateway, &["servers", "-o", "json"]).json()["servers"][0]["name"], "one");
    assert_eq!(run(&gateway, &["servers", "-o", "name"]).done(), "one\n");
    let yaml = run(&gateway, &["servers", "-o", "yaml"]).done();
    let read: Value = serde_saphyr::from_str(&yaml).expect("YAML");
    assert_eq!((&read["servers"][0]["name"], &read["servers"][0]["tool_count"]), (&json!("one"), &json!(5)));
}

#[tokio::test]
async fn tools_are_listed_found_and_described() {
    let server = server().start();
    let gateway = started(&server).await;
    gateway.offers(&["add"]).await;
    let names = run(&gateway, &["tools", "-o", "name"]).done();
    assert_eq!(names, "add\nslow\nbroken\nstructured\nmirrored\n");
    let found = run(&gateway, &["tools", "NUMBERS", "one"]).done();
    assert_eq!(found, "TOOL  SERVER  DESCRIPTION\nadd   one     Adds numbers.\n");
    assert_eq!(
        run(&gateway, &["tools", "numbers", "-o", "json"]).json()["tools"].as_array().map(Vec::len),
        Some(1)
    );
    assert!(run(&gateway, &["tools", "nothing"]).2.contains("no tool matches"));
    let shown = run(&gateway, &["tool", "add"]).done();
    for part in [
        "title: Adder",
        "server: one",
        "readOnlyHint=true",
        "Adds numbers.\nSlowly.",
        "a          integer  yes       the first",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(run(&gateway, &["tool", "add", "-o", "json"]).json()["definition"]["title"], "Adder");
    let unknown = run(&gateway, &["tool", "ad"]);
    assert_eq!(unknown.0, Some(1));
    assert!(unknown.2.contains("there is no tool called \"ad\"; there are add"), "{}", unknown.2);
}

#[tokio::test]
async fn a_call_takes_its_arguments_in_each_way() {
    let server = server().start();
    let gateway = started(&server).await;
    gateway.offers(&["add"]).await;
    let text = |arguments: &[&str]| run(&gateway, &[&["call", "add"], arguments].concat()).done();
    assert_eq!(
        text(&["a=5", "note=7", "deep:={\"x\": 1e400}"]),
        "{\"a\":5,\"note\":\"7\",\"deep\":{\"x\": 1e400}}\n"
    );
    assert_eq!(text(&["--json", r#"{"a":5.00}"#]), "{\"a\":5.00}\n");
    assert_eq!(text(&[]), "{}\n");
    assert_eq!(run_with_input(&gateway, &["call", "add", "-"], "{\"a\":1}\n").done(), "{\"a\":1}\n");
    assert_eq!(run_with_input(&gateway, &["call", "add", "--json", "-"], "{\"a\":2}").done(), "{\"a\":2}\n");
    let answer = run(&gateway, &["call", "add", "a=5", "-o", "json"]).json();
    assert_eq!(answer["content"][0]["text"], "{\"a\":5}");
    assert_eq!(run(&gateway, &["call", "mirrored", "region=Köln 1"]).done(), "{\"region\":\"Köln 1\"}\n");
    assert_eq!(server.runs("mirrored"), 1);
    assert_eq!(run(&gateway, &["call", "slow"]).2, "", "no progress where there is no terminal");
    let structured = run(&gateway, &["call", "structured"]).done();
    assert_eq!(structured, "{\n  \"n\": 1e400,\n  \"z\": 1,\n  \"a\": 2\n}\n");
    let before = server.runs("add");
    for wrong in [
        &["a"][..],
        &["a=1", "a=2"],
        &["a:=x"],
        &["--json", "[]"],
        &["a=1", "--json", "{}"],
        &["-o", "name"],
        &["-o", "xml"],
    ] {
        assert_eq!(run(&gateway, &[&["call", "add"], wrong].concat()).0, Some(2), "{wrong:?}");
    }
    assert_eq!(server.runs("add"), before);
}

#[tokio::test]
async fn a_tool_that_fails_and_one_that_is_unknown_end_with_one() {
    let server = server().start();
    let gateway = started(&server).await;
    gateway.offers(&["broken"]).await;
    let broken = run(&gateway, &["call", "broken"]);
    assert_eq!((broken.0, broken.1.as_str()), (Some(1), "the title is taken\n"));
    assert_eq!(broken.2, "the tool reported an error\n");
    let json = run(&gateway, &["call", "broken", "-o", "json"]);
    assert_eq!((json.0, json.1.contains("\"isError\": true")), (Some(1), true));
    let unknown = run(&gateway, &["call", "brokn"]);
    assert_eq!((unknown.0, unknown.1.as_str()), (Some(1), ""));
    assert!(unknown.2.contains("did you mean \"broken\""), "{}", unknown.2);
}

#[tokio::test]
async fn resources_and_prompts_are_listed_and_read() {
    let contents = r#"{"contents":[{"uri":"memo:a","text":"a\u001b[31m\nb"},{"uri":"memo:a","blob":"AAEC/w=="}],"ttlMs":0,"cacheScope":"private","resultType":"complete"}"#;
    let messages = r#"{"messages":[{"role":"user","content":{"type":"text","text":"Review\u001b[2J this."}}],"resultType":"complete"}"#;
    let server = server()
        .answers("resources/read", vec![contents.into(), contents.into()])
        .answers("prompts/get", vec![messages.into(), messages.into()])
        .start();
    let gateway = started(&server).await;
    gateway.offers(&["add"]).await;
    let resources = run(&gateway, &["resources"]).done();
    assert_eq!(
        resources,
        "URI        NAME  TYPE        DESCRIPTION\nmemo:a     a     text/plain\nmemo:{id}  any\n"
    );
    let listed = run(&gateway, &["resources", "-o", "json"]).json();
    assert_eq!(listed["resources"][0]["uri"], "memo:a");
    assert_eq!(listed["resourceTemplates"][0]["uriTemplate"], "memo:{id}");
    let url = gateway.url("");
    let read = gateway.gateway().output(&["read", "memo:a", "--url", &url]);
    assert_eq!(
        (read.status.code(), &read.stdout[..]),
        (Some(0), &b"a\x1b[31m\nb\x00\x01\x02\xff"[..]),
        "its bytes"
    );
    assert_eq!(run(&gateway, &["read", "memo:a", "-o", "json"]).json()["contents"][1]["blob"], "AAEC/w==");
    let prompts = run(&gateway, &["prompts"]).done();
    assert_eq!(prompts, "PROMPT  ARGUMENTS       DESCRIPTION\nreview  language tone?  Reviews code.\n");
    let prompt = run(&gateway, &["prompt", "review", "language=5"]).done();
    assert_eq!(prompt, "user: Review\\u{1b}[2J this.\n");
    let sent = server.seen_calling("prompts/get");
    assert!(sent[0].body.contains(r#""arguments":{"language":"5"}"#), "{}", sent[0].body);
    assert_eq!(run(&gateway, &["prompt", "review", "-o", "json"]).json()["messages"][0]["role"], "user");
    assert_eq!(run(&gateway, &["prompt", "review", "a:=5"]).0, Some(2));
}

#[tokio::test]
async fn an_operator_resets_reconnects_reloads_and_approves() {
    let server = server().start();
    let gateway = started(&server).await;
    gateway.offers(&["add"]).await;
    let breakers = run(&gateway, &["breakers"]).done();
    assert_eq!(breakers, "SERVER  STATE   FAILURES  NEXT PROBE\none     closed  0         -\n");
    assert_eq!(run(&gateway, &["breakers", "reset", "one", "-o", "json"]).json()["state"], "closed");
    assert_eq!(run(&gateway, &["breakers", "-o", "name"]).done(), "one\n");
    assert_eq!(run(&gateway, &["reconnect", "one", "-o", "json"]).json()["name"], "one");
    assert!(run(&gateway, &["reconnect", "one"]).done().contains("one     ready"));
    assert!(run(&gateway, &["disable", "one"]).done().contains("one     disabled"));
    assert_eq!(run(&gateway, &["tools", "-o", "name"]).done(), "");
    let refused = run(&gateway, &["call", "add"]);
    assert!(refused.0 == Some(1) && refused.2.contains("/servers/one/enable"), "{}", refused.2);
    assert_eq!(run(&gateway, &["enable", "one", "-o", "json"]).json()["state"], "ready");
    server.change_tools(vec![Tool::named("add"), Tool::named("other")]);
    gateway.offers(&["other"]).await;
    let servers = run(&gateway, &["servers"]);
    assert!(servers.2.contains("one: 1 tools are not what they were"), "{}", servers.2);
    let approved = run(&gateway, &["approve", "one", "--tool", "add", "--yes", "-o", "json"]).json();
    assert_eq!(approved["changed_tool_count"], 0);
    assert_eq!(run(&gateway, &["approve", "one", "--tool", "nothing"]).0, Some(1));
    gateway.rewrite(&Registry::new().http("one", &server.url()).http("two", &server.url()).yaml());
    let reloaded = run(&gateway, &["reload"]).done();
    assert_eq!(reloaded, "SERVER  CHANGE\ntwo     added\none     unchanged\n");
    assert_eq!(run(&gateway, &["reload", "-o", "json"]).json()["unchanged"], json!(["one", "two"]));
    gateway.rewrite("mcp_servers: 5");
    let refused = run(&gateway, &["reload"]);
    assert_eq!((refused.0, refused.1.as_str()), (Some(1), ""), "{}", refused.2);
    let unknown = run(&gateway, &["reconnect", "nowhere"]);
    assert_eq!(unknown.0, Some(1));
    assert!(unknown.2.contains("nowhere"), "{}", unknown.2);
}

#[tokio::test]
async fn a_refused_key_ends_with_four_and_does_not_show() {
    let server = server().start();
    let keys = format!("server: {{{}}}", api_keys(&[(KEY, "role: reader")]));
    let registry = Registry::new().http("one", &server.url()).setting(&keys);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers_to("add", &format!("Bearer {KEY}")).await;
    for arguments in [&["status"][..], &["call", "add"], &["resources"], &["breakers", "reset", "one"]] {
        let none = run(&gateway, arguments);
        assert_eq!((none.0, none.1.as_str()), (Some(4), ""), "{arguments:?}");
        let wrong = run(&gateway, &[arguments, &["--key", "swy_canary_wrong"]].concat());
        assert_eq!(wrong.0, Some(4), "{arguments:?}");
        assert!(!wrong.2.contains("canary"), "{}", wrong.2);
    }
    run(&gateway, &["tools", "--key", KEY]).done();
    run(&gateway, &["prompts", "--key", KEY]).done();
    for arguments in [&["reload"][..], &["call", "add"]] {
        let weak = run(&gateway, &[arguments, &["--key", KEY]].concat());
        assert_eq!(weak.0, Some(4), "a reader may not: {}", weak.2);
    }
    assert_eq!(server.runs("add"), 0);
}

#[test]
fn a_gateway_that_is_not_there_ends_with_three_and_wrong_usage_with_two() {
    let (gateway, gone) = (Gateway::with_config("mcp_servers: {}"), Refusing::new());
    for arguments in [&["status"][..], &["tools"], &["call", "a"], &["read", "memo:a"], &["reload"]] {
        let ran = Ran::of(gateway.output(&[arguments, &["--url", &gone.url()]].concat()));
        assert_eq!((ran.0, ran.1.as_str()), (Some(3), ""), "{arguments:?}");
        assert!(ran.2.contains("cannot reach the gateway at http://127.0.0.1:"), "{}", ran.2);
    }
    for arguments in [
        &["tools", "--url", "gateway"][..],
        &["tool"],
        &["breakers", "open"],
        &["approve", "one", "--sha256", "00"],
        &["servers", "--config", "nowhere.yaml"],
        &["reconnect", "a/b", "--url", "http://127.0.0.1:9"],
        &["completions", "csh"],
        &["man"],
        &["check", "mcp_servers.yaml", "--config", "mcp_servers.yaml"],
    ] {
        assert_eq!(Ran::of(gateway.output(arguments)).0, Some(2), "{arguments:?}");
    }
    assert_eq!(Ran::of(gateway.output(&["check", "--config", "mcp_servers.yaml"])).0, Some(0));
}

/// The bytes that a command writes to a terminal of 60 columns.
fn on_terminal(gateway: &Running, arguments: &str, variables: &[(&str, &str)]) -> String {
    let line =
        format!("stty cols 60; {} {arguments} --url {}", env!("CARGO_BIN_EXE_switchyard"), gateway.url(""));
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .envs(variables.iter().copied())
        .current_dir(gateway.folder())
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    eprintln!("{text:?}");
    text
}

#[tokio::test]
async fn texts_of_servers_do_not_act_on_a_terminal() {
    let definition = json!({"name": "bad", "title": HOSTILE, "description": HOSTILE.repeat(20),
        "annotations": {"title": HOSTILE},
        "inputSchema": {"type": "object", "properties": {HOSTILE: {"type": HOSTILE, "description": HOSTILE}}}});
    let result = json!({"content": [{"type": "text", "text": HOSTILE}, {"type": "resource_link", "uri": HOSTILE}],
        "resultType": "complete"});
    let failure = json!({"code": -32000, "message": HOSTILE});
    let contents = json!({"contents": [{"uri": "memo:a", "text": HOSTILE}], "resultType": "complete", "ttlMs": 0,
        "cacheScope": "private"});
    let server = Scripted::modern()
        .tool(Tool::defined("bad", &definition.to_string()).does(Act::Result(result.to_string())))
        .tool(Tool::named("refuses").does(Act::Error(failure.to_string())))
        .offers("prompts", &json!([{"name": "p", "description": HOSTILE}]).to_string())
        .offers("resources", &json!([{"uri": "memo:a", "name": HOSTILE}]).to_string())
        .answers("resources/read", vec![contents.to_string()])
        .start();
    let gateway = started(&server).await;
    gateway.offers(&["bad"]).await;
    let commands = ["tools", "tool bad", "call bad", "call refuses", "prompts", "resources", "read memo:a"];
    let more = ["tools -o json", "tools -o yaml", "call bad -o json", "call bad -o yaml", "tool bad -o name"];
    for command in commands.iter().chain(&more) {
        let text = on_terminal(&gateway, command, &[("NO_COLOR", "1")]);
        assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{command}: {text:?}");
        let is_shown = text.contains(r"\u{1b}") || text.to_lowercase().contains(r"\u001b");
        assert!(is_shown || command.contains("name"), "{command}: {text:?}");
    }
}

#[tokio::test]
async fn a_terminal_gets_colors_progress_and_lines_that_fit() {
    let server = server().start();
    let gateway = started(&server).await;
    gateway.offers(&["add"]).await;
    let servers = on_terminal(&gateway, "servers", &[]);
    assert!(
        servers.contains("\u{1b}[1mSERVER") && servers.contains("\u{1b}[32mready\u{1b}[0m"),
        "{servers:?}"
    );
    for plain in [
        on_terminal(&gateway, "servers --no-color", &[]),
        on_terminal(&gateway, "servers", &[("NO_COLOR", "1")]),
        on_terminal(&gateway, "servers", &[("TERM", "dumb")]),
        run(&gateway, &["servers"]).1,
    ] {
        assert!(!plain.contains('\u{1b}'), "{plain:?}");
    }
    let lines = on_terminal(&gateway, "servers --no-color", &[]);
    assert!(
        lines.lines().all(|line| line.chars().count() <= 60) && lines.contains("TARGET     http:"),
        "{lines}"
    );
    let called = on_terminal(&gateway, "call slow", &[]);
    assert!(
        called.contains("\r\u{1b}[K1/2 step 1") && called.contains("2/2 step 2\r\u{1b}[K{}"),
        "{called:?}"
    );
    assert!(!on_terminal(&gateway, "call slow --quiet", &[]).contains("step"));
}

#[test]
fn completions_and_man_pages_name_every_command() {
    let gateway = Gateway::with_config("");
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = Ran::of(gateway.output(&["completions", shell])).done();
        for command in ["breakers", "login", "check", "completions"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    assert_eq!(Ran::of(gateway.output(&["man", "pages"])).0, Some(0));
    for page in
        ["switchyard.1", "switchyard-call.1", "switchyard-breakers-reset.1", "switchyard-secret-set.1"]
    {
        let text = std::fs::read_to_string(gateway.folder().join("pages").join(page)).expect(page);
        assert!(text.contains(".SH NAME"), "{page}");
    }
    std::fs::write(gateway.folder().join("file"), "").expect("written");
    assert_eq!(Ran::of(gateway.output(&["man", "file"])).0, Some(1));
}

#[test]
fn a_command_whose_output_nobody_reads_fails_in_silence() {
    let gateway = Gateway::with_config("mcp_servers: {}");
    std::fs::write(gateway.folder().join("client.json"), r#"{"mcpServers": {"a": {"command": "b"}}}"#)
        .expect("written");
    for arguments in [
        &["completions", "bash"][..],
        &["schema"],
        &["import", "client.json"],
        &["key", "new"],
        &["check"],
        &["doctor"],
        &["init", "--dry-run", "--config", "new.yaml"],
    ] {
        let ran = Ran::of(gateway.output_unread(arguments));
        assert_eq!((ran.0, ran.2.as_str()), (Some(1), ""), "{arguments:?}");
    }
}

/// The lines of one interval of `status --watch`.
async fn block(lines: &mut Lines<BufReader<ChildStdout>>) -> Vec<String> {
    let mut block = Vec::new();
    while let Some(line) = lines.next_line().await.expect("UTF-8").filter(|line| !line.is_empty()) {
        block.push(line);
    }
    block
}

#[tokio::test]
async fn watched_status_prints_a_block_with_rates_for_each_interval() {
    let server = server().start();
    let gateway =
        Gateway::of(&Registry::new().http("one", &server.url()).http("gone", &Refusing::new().url()));
    let gateway = gateway.start().await;
    gateway.offers(&[]).await;
    let mut command = tokio::process::Command::from(gateway.gateway().command("status"));
    command
        .args(["--watch", "--url", &gateway.url("")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut watch = command.spawn().expect("it starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    let first = block(&mut lines).await;
    gateway.call("one", "add", json!({"a": 1})).await;
    let second = block(&mut lines).await;
    for (block, is_first) in [(&first, true), (&second, false)] {
        let [title, header, gone, one] = block.as_slice() else { panic!("{block:#?}") };
        assert!(title.contains(&gateway.url("")) && title.ends_with("1 of 2 servers are healthy"), "{title}");
        assert!(header.starts_with("SERVER") && !block.concat().contains('\u{1b}'), "{block:#?}");
        assert!(gone.starts_with("gone"), "servers with a problem come first: {gone}");
        let cells: Vec<&str> = one.split_whitespace().collect();
        assert_eq!((cells[0], cells[1], cells[2]), ("one", "ready", "closed"));
        assert_eq!((cells[3] == "-", cells[9]), (is_first, if is_first { "0" } else { "1" }), "{one}");
        assert_eq!(
            (cells[5] == "-", cells[5].matches('/').count()),
            (is_first, usize::from(!is_first)),
            "{one}"
        );
        assert!(is_first || cells[3].parse::<f64>().is_ok_and(|rate| rate > 0.0), "{one}");
    }
    drop(gateway);
    let away = block(&mut lines).await;
    assert!(matches!(away.as_slice(), [title] if title.contains("cannot reach the gateway")), "{away:#?}");
}

#[tokio::test]
async fn watched_status_ends_at_a_gateway_that_is_away_or_refuses_the_key() {
    let keys = "server: {auth_mode: api_key, api_keys: [{id: op, role: reader, \
                hash: \"sha256:5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9\"}]}";
    let gateway = Gateway::of(&Registry::new().setting(keys)).start().await;
    let (here, gone) = (gateway.url(""), Refusing::new());
    for (arguments, code, reason) in [
        (&["status", "--watch", "--url", &gone.url()][..], 3, "cannot reach the gateway"),
        (&["status", "--watch", "--url", &here], 4, "SWITCHYARD_KEY"),
        (&["status", "--watch", "--check", "--url", &here], 2, "cannot be used with"),
    ] {
        let ran = Ran::of(gateway.gateway().output(arguments));
        assert_eq!((ran.0, ran.1.as_str()), (Some(code), ""), "{}", ran.2);
        assert!(ran.2.contains(reason), "{}", ran.2);
    }
}

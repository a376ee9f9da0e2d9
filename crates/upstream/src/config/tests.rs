//! Reading servers: defaults, the implied transport, and conflicting settings.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret;
use serde_json::json;

use super::{BuiltinKind, BuiltinOptions, Config, Defaults, Kinds, OnChange, Transport};
use crate::ServerContext;
use crate::connection::Connector;
use settings::{Entry, Fingerprint, Mark, Node, Problems, Setting, Text, Value};

/// Kinds of built-in servers as a program may have them.
const KINDS: Kinds = &[
    BuiltinKind { name: "echo", fields: &["echo"], read: |_| Some(Arc::new(Nothing)) },
    BuiltinKind { name: "search", fields: &["url", "search"], read: |_| Some(Arc::new(Nothing)) },
];

/// Options of a server that is never started.
#[derive(Debug)]
struct Nothing;

impl BuiltinOptions for Nothing {
    fn connector(&self, _name: &Arc<str>, _means: &ServerContext) -> Arc<dyn Connector> {
        unreachable!("no test here connects")
    }
}

fn read(globals: serde_json::Value, server: serde_json::Value) -> Result<Config, Vec<String>> {
    let (globals, server, problems) = (Node::from(globals), Node::from(server), Problems::default());
    let mut fields = Setting::root(&globals, &problems).fields().expect("a mapping");
    let defaults = Defaults::from_fields(&mut fields, KINDS);
    fields.finish();
    let config = Config::from_settings(
        &Setting::root(&server, &problems).in_folder(Path::new("etc")),
        "one",
        &defaults,
    );
    let found: Vec<String> = problems.sorted().iter().map(ToString::to_string).collect();
    if found.is_empty() { Ok(config.expect("no problem, so a server")) } else { Err(found) }
}

#[track_caller]
fn good(server: serde_json::Value) -> Config {
    read(json!({}), server).expect("valid")
}

#[track_caller]
fn bad(server: serde_json::Value, expected: &[&str]) {
    assert_eq!(read(json!({}), server).expect_err("invalid"), expected);
}

#[test]
fn unset_setting_has_the_documented_default() {
    let config = good(json!({"url": "http://localhost:8001"}));
    let seconds = Duration::from_secs;
    assert!(matches!(config.transport, Transport::Http(_)) && config.enabled && config.description.is_none());
    assert_eq!((config.timeout, config.health_check_interval), (seconds(30), seconds(30)));
    assert_eq!(
        (config.retry.attempts, config.retry.delay, config.retry.max_delay),
        (3, seconds(1), seconds(30))
    );
    assert_eq!((config.breaker.threshold, config.breaker.timeout), (5, seconds(30)));
    let limits = config.limits;
    assert_eq!((limits.connections, limits.concurrent_calls, limits.waiting_calls), (10, 64, 256));
    assert_eq!(limits.message_bytes, 16 << 20);
    assert!(config.tools.allow.is_none() && config.tools.deny.is_empty() && config.tools.rename.is_empty());
}

#[test]
fn null_setting_is_as_if_not_written() {
    let fields = [
        "transport",
        "timeout",
        "retry_attempts",
        "retry_delay",
        "retry_max_delay",
        "circuit_breaker_threshold",
        "circuit_breaker_timeout",
        "enabled",
        "description",
    ];
    let mut server = json!({"url": "http://a"});
    for field in fields {
        server[field] = json!(null);
    }
    let globals = json!({
        "default_timeout": null, "default_retry_attempts": null, "connection_pool_size": null,
        "health_check_interval": null,
    });
    let (config, plain) = (read(globals, server).expect("valid"), good(json!({"url": "http://a"})));
    let but_source =
        |config: &Config| format!("{:?}", Config { source: Fingerprint::ABSENT, ..config.clone() });
    assert_eq!(but_source(&config), but_source(&plain));
    bad(
        json!({"url": "http://a", "tools": {"allow": null}}),
        &["tools.allow: expected a list, found nothing (hint: give it a value, or remove the key)"],
    );
    bad(
        json!({"command": null}),
        &["command: expected a text, found nothing (hint: give it a value, or remove the key)"],
    );
}

#[test]
fn globals_hold_for_servers_that_do_not_say_otherwise() {
    let globals = json!({
        "default_timeout": 7, "default_retry_attempts": 0, "connection_pool_size": 2, "health_check_interval": 0.5,
    });
    let config = read(globals.clone(), json!({"url": "http://a"})).expect("valid");
    assert_eq!(
        (config.timeout, config.retry.attempts, config.limits.connections),
        (Duration::from_secs(7), 0, 2)
    );
    assert_eq!(config.health_check_interval, Duration::from_millis(500));
    let config =
        read(globals, json!({"url": "http://a", "timeout": 60, "retry_attempts": 4})).expect("valid");
    assert_eq!((config.timeout, config.retry.attempts), (Duration::from_mins(1), 4));
}

#[test]
fn policy_for_changed_tools_is_set_for_all_or_for_one() {
    let on_change = |globals, server| read(globals, server).expect("valid").tools.on_change;
    let web = || json!({"url": "http://a"});
    assert_eq!(on_change(json!({}), web()), OnChange::Warn);
    let block = || json!({"default_tools_on_change": "block"});
    assert_eq!(on_change(block(), web()), OnChange::Block);
    assert_eq!(on_change(block(), json!({"url": "http://a", "tools": {"deny": ["x"]}})), OnChange::Block);
    let allow = json!({"url": "http://a", "tools": {"on_change": "allow"}});
    assert_eq!(on_change(block(), allow), OnChange::Allow);
    let ours = |tools: serde_json::Value| json!({"transport": "builtin", "builtin": "echo", "echo": {}, "tools": tools});
    assert_eq!(on_change(block(), ours(json!({}))), OnChange::Allow, "its tools are ours");
    bad(
        ours(json!({"on_change": "block"})),
        &["tools.on_change: `on_change` does not go with a built-in server \
           (hint: its tools are part of this program and change with it; remove it)"],
    );
    let hash = format!("sha256:{}Aa", "0f".repeat(31));
    let with = |tools: serde_json::Value| json!({"url": "http://a", "tools": tools});
    let trusted = good(with(json!({"trusted": {"t": hash}}))).tools.trusted;
    assert_eq!((trusted["t"][0], trusted["t"][31], trusted.len()), (0x0f, 0xaa, 1));
    for wrong in
        [json!("0f".repeat(32)), json!("sha256:0f"), json!(format!("sha256:{}", "0g".repeat(32))), json!(7)]
    {
        let problems = read(json!({}), with(json!({"trusted": {"t": wrong}}))).expect_err("invalid");
        assert!(problems[0].starts_with("tools.trusted.t: "), "{problems:?}");
    }
    let idle =
        read(json!({}), with(json!({"on_change": "allow", "trusted": {"t": hash}}))).expect_err("invalid");
    assert!(idle[0].starts_with("tools.trusted: `trusted` is of no use here"), "{idle:?}");
    let sometimes = json!({"url": "http://a", "tools": {"on_change": "ask"}});
    assert!(read(json!({}), sometimes).expect_err("invalid")[0].starts_with("tools.on_change: "));
    let source = |globals| read(globals, web()).expect("valid").source;
    assert!(source(json!({})) != source(block()), "another default is another server");
}

#[test]
fn the_transport_follows_from_what_is_given() {
    let word = |config: Config| match config.transport {
        Transport::Http(_) => "http",
        Transport::Sse(_) => "sse",
        Transport::Stdio(_) => "stdio",
        Transport::Builtin(_) => "builtin",
    };
    assert_eq!(word(good(json!({"url": "http://a"}))), "http");
    assert_eq!(word(good(json!({"url": "http://a", "transport": "sse"}))), "sse");
    assert_eq!(word(good(json!({"command": "npx"}))), "stdio");
    let both =
        json!({"url": "http://a", "command": "npx", "args": ["x"], "env": {"A": "b"}, "headers": {"X": "y"}});
    assert_eq!(word(good(both)), "http", "`stdio` only if only `command` is given");
    assert_eq!(word(good(json!({"url": null, "command": "npx"}))), "stdio");
    let echo = json!({"transport": "builtin", "builtin": "echo", "echo": {}});
    let echo = good(echo);
    assert_eq!(echo.target, "echo");
    assert_eq!(word(echo), "builtin");
}

#[test]
fn contradictory_settings_are_refused() {
    bad(
        json!({}),
        &[
            "neither `url` nor `command` is given (hint: add `url: http://…`, or `command:` for a program that speaks MCP over stdio)",
        ],
    );
    bad(
        json!({"url": "http://a", "args": ["x"]}),
        &["args: `args` does not go with transport `http` (hint: it belongs to transport `stdio`)"],
    );
    bad(
        json!({"url": "http://a", "command": "npx", "builtin": "rag"}),
        &[
            "`command` and `builtin` are both given (hint: say which one is meant with `transport: stdio` or `builtin`, and remove the other)",
        ],
    );
    bad(
        json!({"url": "http://a", "transport": "http", "command": "npx"}),
        &["command: `command` does not go with transport `http` (hint: it belongs to transport `stdio`)"],
    );
    bad(
        json!({"transport": "http", "command": "npx"}),
        &[
            "`url` is missing (hint: add `url: http://…`)",
            "command: `command` does not go with transport `http` (hint: it belongs to transport `stdio`)",
        ],
    );
    bad(
        json!({"command": "npx", "headers": {}}),
        &[
            "headers: `headers` does not go with transport `stdio` (hint: it belongs to transport `http` or `sse`)",
        ],
    );
    bad(
        json!({"transport": "stdio"}),
        &["`command` is missing (hint: add the program to start, such as `command: npx`)"],
    );
    bad(json!({"builtin": "echo"}), &["`transport` is missing (hint: add `transport: builtin`)"]);
    bad(
        json!({"transport": "builtin", "builtin": "ecco"}),
        &["builtin: `ecco` is not one of `echo`, `search` (hint: did you mean `echo`?)"],
    );
}

#[test]
fn other_fields_are_checked_beside_an_unusable_transport() {
    bad(
        json!({"transport": "htp", "timeout": 0, "retry": 1}),
        &[
            "retry: unknown key",
            "timeout: 0 is out of range, expected 1 to 600 seconds",
            "transport: `htp` is not one of `http`, `sse`, `stdio`, `builtin` (hint: did you mean `http`?)",
        ],
    );
}

#[test]
fn paths_are_relative_to_the_file() {
    let config = good(json!({"command": "x", "cwd": "work"}));
    let Transport::Stdio(stdio) = config.transport else { panic!("not stdio") };
    assert_eq!(stdio.cwd.as_deref(), Some(Path::new("etc/work")));
}

#[test]
fn shown_server_configuration_has_no_credentials() {
    let target = |server| good(server).target;
    assert_eq!(
        target(json!({"url": "https://me:s3cret@example.org/mcp?key=s3cret"})),
        "https://example.org/mcp?key=…"
    );
    assert_eq!(target(json!({"command": "npx", "args": ["--token", "s3cret"]})), "npx");
    let url = Value::Text(Text::expanded("${URL}/mcp", "https://s3cret/mcp", "${URL}/mcp"));
    let entry = Entry { key: "url".into(), key_mark: Mark::START, node: url.into() };
    let (server, problems) = (Node::from(Value::Map(vec![entry])), Problems::default());
    let empty = Node::from(json!({}));
    let mut none = Setting::root(&empty, &problems).fields().expect("a mapping");
    let defaults = Defaults::from_fields(&mut none, KINDS);
    let config = Config::from_settings(&Setting::root(&server, &problems), "one", &defaults).expect("valid");
    assert_eq!(config.target, "${URL}/mcp");
}

#[test]
fn credentials_become_headers() {
    let config = good(json!({"url": "http://a", "headers": {"X-Key": "k"}, "auth": {"bearer": "t"}}));
    let Transport::Http(http) = config.transport else { panic!("not http") };
    let sent: Vec<_> =
        http.headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
    assert_eq!(sent, [("x-key", "k"), ("authorization", "Bearer t")]);
}

#[test]
fn a_token_stands_in_the_file_or_in_a_file_of_its_own() {
    let config = good(json!({"url": "http://a", "auth": {"bearer_file": "token"}}));
    let Transport::Http(http) = config.transport else { panic!("not http") };
    assert!(http.token.is_some() && http.headers.is_empty());
    for (auth, expected) in [
        (json!({}), "auth: `bearer` is missing"),
        (json!({"bearer": "t", "bearer_file": "f"}), "auth.bearer_file: `bearer` is given already"),
        (json!({"bearer_fiel": "f"}), "auth.bearer_fiel: unknown key"),
    ] {
        let found = read(json!({}), json!({"url": "http://a", "auth": auth})).expect_err("refused");
        assert!(found.iter().any(|problem| problem.starts_with(expected)), "{auth}: {found:?}");
    }
    let both = json!({"url": "http://a", "auth": {"bearer_file": "f"}, "headers": {"Authorization": "x"}});
    let found = read(json!({}), both).expect_err("refused");
    assert!(found[0].contains("sets Authorization already"), "{found:?}");
}

#[test]
fn variables_are_passed_that_the_server_or_else_the_file_names() {
    let defaults = json!({"default_pass_env": ["HTTPS_PROXY", "NO_PROXY"]});
    let passed = |server| {
        let config = read(defaults.clone(), server).expect("valid");
        let Transport::Stdio(stdio) = config.transport else { panic!("not stdio") };
        (stdio.pass_env, config.source)
    };
    let (of_all, with) = passed(json!({"command": "x"}));
    assert_eq!(of_all, ["HTTPS_PROXY", "NO_PROXY"]);
    assert_eq!(passed(json!({"command": "x", "pass_env": []})).0, [""; 0]);
    assert_eq!(passed(json!({"command": "x", "pass_env": ["A"]})).0, ["A"]);
    assert_ne!(good(json!({"command": "x"})).source, with, "it is another server then");
    bad(
        json!({"command": "x", "pass_env": ["A=b"]}),
        &[
            "pass_env[0]: this is not the name of an environment variable (hint: write the name alone, such as HTTPS_PROXY)",
        ],
    );
}

#[test]
fn headers_that_can_not_be_sent_are_refused_without_their_values() {
    let headers = json!({
        "a b": "canary", "Mcp-Session-Id": "canary", "X-A": "canary\n", "Content-Type": "canary",
        "Authorization": "canary", "authorization": "canary",
    });
    let found = read(json!({}), json!({"url": "http://a", "headers": headers, "auth": {"bearer": "canary"}}));
    let found = found.expect_err("invalid");
    assert_eq!(found.len(), 6, "{found:#?}");
    assert!(!found.join("").contains("canary"), "{found:#?}");
}

#[test]
fn pauses_that_contradict_each_other() {
    let url = "http://a";
    let config = good(json!({"url": url, "retry_delay": 5, "retry_max_delay": 2}));
    let two = Duration::from_secs(2);
    assert_eq!((config.retry.delay, config.retry.max_delay), (two, two), "the largest counts");
    let config = good(json!({"url": url, "retry_delay": 60}));
    assert_eq!(config.retry.max_delay, Duration::from_mins(1), "an existing file must go on loading");
}

#[test]
fn tool_lists_that_contradict_each_other() {
    let tools =
        json!({"allow": ["a", "b"], "deny": ["b", "c"], "rename": {"a": "x", "b": "x", "c": "no blanks"}});
    bad(
        json!({"url": "http://a", "tools": tools}),
        &[
            "tools.deny[0]: `b` is both allowed and denied",
            "tools.rename.b: `x` is what `a` is renamed to already",
            "tools.rename.c: `no blanks` is not a name for a tool",
        ],
    );
}

#[test]
fn values_from_variables_are_secret() {
    let text = |written: &str, value: &str, inserted: &str| {
        Value::Text(Text::expanded(written, value, written).with_inserted(vec![inserted.into()]))
    };
    let mut server = Node::from(json!({
        "command": "npx", "args": ["--token", "0", "plain"], "env": {"KEY": "0", "MODE": "plain"},
    }));
    let Value::Map(fields) = &mut server.value else { panic!("a mapping") };
    for field in fields {
        match &mut field.node.value {
            Value::List(args) => args[1].value = text("--t=${T}", "--t=tok-123", "tok-123"),
            Value::Map(env) => env[0].node.value = text("${K}", "key-123", "key-123"),
            _ => {}
        }
    }
    let problems = Problems::default();
    let globals = Node::from(json!({}));
    let mut fields = Setting::root(&globals, &problems).fields().expect("a mapping");
    let defaults = Defaults::from_fields(&mut fields, KINDS);
    let config = Config::from_settings(&Setting::root(&server, &problems), "one", &defaults);
    let config = config.expect("valid");
    let secrets: Vec<&str> = config.secrets.iter().map(ExposeSecret::expose_secret).collect();
    assert_eq!(secrets, ["tok-123", "--t=tok-123", "key-123", "key-123"]);
}

//! Files that are made to cost time and memory, and files of which only some servers are wrong.

use super::{Config, Error};

#[test]
fn a_hostile_file_is_refused_in_bounded_time_and_space() {
    let file = |text: String| {
        let lookup = |_: &str| Err(std::env::VarError::NotPresent);
        let read = Config::parse(std::path::Path::new("f"), text.as_bytes(), &lookup);
        let Err(Error::Invalid(report)) = read else { panic!("it is not refused") };
        assert!(report.problems.len() <= 1_000 && report.to_string().len() < 100_000);
    };
    let keys =
        |separator: &str| (0..10_000).map(|at| format!("k{at}: $NONE")).collect::<Vec<_>>().join(separator);
    file(format!("{{{}}}", keys(",")));
    file(keys("\n"));
    file(format!("? {}\n: 1\n", "k".repeat(1_000_000)));
    file(format!("{}: 1\n", "k".repeat(250)));
    file(format!("mcp_servers: {{one: {{url: \"{}\"}}}}", "x".repeat(1_000_000)));
    file(format!("mcp_servers: {{one: {{url: \"{}\"}}}}", "$A".repeat(50_000)));
    file("[".repeat(1_000_000));
    file("x".repeat(2 << 20));
}

/// Reads a file in which no variable is set.
fn each(text: &str) -> Result<(Config, Option<super::Report>), Error> {
    let unset = |_: &str| Err(std::env::VarError::NotPresent);
    Config::parse_each(std::path::Path::new("f"), text.as_bytes(), &unset)
}

#[test]
fn mistake_in_one_server_leaves_the_others_configured() {
    let unset = "set B, or give a default: `${B:-…}`; `$$` is a dollar sign";
    for (mistake, place, hint) in [
        ("{url: \"http://b\", timeot: 1}", "timeot", Some("did you mean `timeout`?")),
        ("{url: \"http://b\", timeout: 900}", "900", None),
        ("{command: x, tools: {deny: 1}}", "1}", None),
        ("{url: \"${B}/mcp\"}", "\"$", Some(unset)),
        ("{command: x, command: y}", "command: y", None),
        ("{transport: builtin, builtin: nothing}", "nothing", None),
        ("http://b", "http://b", Some("write `key: value` lines below it, indented")),
        (
            "{timeout: 1}",
            "b: ",
            Some("add `url: http://…`, or `command:` for a program that speaks MCP over stdio"),
        ),
        ("!x {command: x}", "!x", None),
    ] {
        let line = format!("  b: {mistake}");
        let text = format!("mcp_servers:\n  a: {{url: \"http://a\"}}\n{line}\n  c.d: {{command: x}}\n");
        let (config, report) = each(&text).unwrap_or_else(|error| panic!("{mistake}: {error}"));
        let names: Vec<&str> = config.manager.servers.iter().map(|server| &*server.name).collect();
        assert_eq!(names, ["a", "c.d"], "{mistake}");
        let [wrong] = config.manager.not_configured.as_slice() else { panic!("{mistake}") };
        let (problem, column) = (&wrong.problems[0], 1 + line.find(place).expect("it is there"));
        assert_eq!((&*wrong.name, problem.mark.to_string()), ("b", format!("3:{column}")), "{mistake}");
        assert_eq!(problem.hint.as_deref(), hint, "{mistake}");
        assert_eq!(report.expect("a report").problems, wrong.problems, "{mistake}");
    }
}

#[test]
fn mistake_of_the_gateway_itself_leaves_nothing_configured() {
    for mistake in [
        "server: {listen: 0.0.0.0:1}",
        "server: {workers: 0}",
        "tool_nams: auto",
        "default_timeout: 0",
        "mcp_servers: []",
        "mcp_servers: {a: {command: x}, a: {command: x}}\nproxy: \"${NONE}\"",
        "mcp_servers: {a: {command: x}}\nserver: {auth_mode: jwt}",
    ] {
        assert!(each(mistake).is_err(), "{mistake}");
    }
    assert!(matches!(each("mcp_servers: {a: {command: x}}"), Ok((_, None))));
}

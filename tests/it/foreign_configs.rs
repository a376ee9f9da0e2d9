//! The configuration files of other programs, pasted literally and imported.
//!
//! `tests/configs/foreign/NAME.yaml` are files as their users have them. Pasted, every line is accepted or refused
//! with a hint that names a field of Switchyard; `switchyard import` makes a file of each that `check` accepts.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use crate::support::Gateway;

const FILES: [&str; 4] = ["manager", "r2r_mcp_config", "chroma_config", "rag_mcp_server"];

fn foreign(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs/foreign");
    std::fs::read_to_string(folder.join(format!("{name}.yaml"))).expect("readable")
}

/// Every name between backquotes in the reference.
fn documented() -> BTreeSet<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let read = |page| std::fs::read_to_string(docs.join(page)).expect("readable");
    let text = ["configuration.md", "embeddings.md", "import.md"].map(read).concat();
    let names = text.split('`').skip(1).step_by(2).filter(|name| !name.contains('\n'));
    names
        .flat_map(|name| name.rsplit('.').take(1))
        .map(|name| name.trim_end_matches(':').to_owned())
        .collect()
}

/// Exit code and text of a command, in an environment that has the variables which the files name.
fn run(yaml: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let gateway = Gateway::with_config(yaml)
        .env("R2R_SERVICE_PASSWORD", "p")
        .env("OPENAI_API_KEY", "k")
        .env("SENTRY_DSN", "d");
    let Output { status, stdout, stderr } = gateway.output(arguments);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

/// Line and hint of each problem that `check` reports.
fn problems(yaml: &str) -> Vec<(usize, String)> {
    let (code, _, told) = run(yaml, &["check", "mcp_servers.yaml"]);
    if code == Some(0) {
        return Vec::new();
    }
    let blocks = told.split("\n\n").filter_map(|block| block.strip_prefix("mcp_servers.yaml:"));
    let numbered = blocks.filter_map(|block| Some((block.split_once(':')?.0.parse().ok()?, block)));
    let hint = |block: &str| block.split_once("hint: ").map_or(String::new(), |(_, hint)| hint.to_owned());
    numbered.map(|(line, block)| (line, hint(block))).collect()
}

// Issue 18, item 14: before, most lines were "unknown key" without a hint, or with a misleading one.
#[test]
fn every_pasted_line_is_accepted_or_refused_with_a_hint_that_names_a_field() {
    let documented = documented();
    for name in FILES {
        let problems = problems(&foreign(name));
        for (line, hint) in &problems {
            eprintln!("{name}:{line}: {hint}");
            let mut named = hint.split('`').skip(1).step_by(2).flat_map(|path| path.rsplit('.').take(1));
            assert!(named.any(|word| documented.contains(word)), "{name}:{line} names no field: {hint:?}");
        }
        // A line that is not reported was accepted, because an unknown key is a problem. So every line is counted.
        let parents = foreign(name).lines().filter(|line| line.ends_with(':')).count();
        let leaves = foreign(name).lines().count() - parents;
        let (least, most) = match name {
            "manager" => (0, 0),
            "chroma_config" => (leaves - 1, leaves + 1),
            _ => (leaves - 2, leaves + parents),
        };
        assert!((least..=most).contains(&problems.len()), "{name}: {} problems", problems.len());
    }
}

#[test]
fn lines_of_other_programs_are_named_beside_lines_of_this_one() {
    let yaml = "mcp_servers:\n  a:\n    url: http://localhost:1\n    timeot: 3\nlogging:\n  level: INFO\n  colour: on\n";
    let found = problems(yaml);
    let (_, _, told) = run(yaml, &["check", "mcp_servers.yaml"]);
    eprintln!("{told}");
    let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [4, 6, 7], "{found:?}");
    assert!(found[0].1.contains("`timeout`") && found[1].1.contains("`server.log_level`"), "{found:?}");
}

#[test]
fn import_makes_a_file_of_each_that_is_valid() {
    for (name, servers, expected) in [
        ("manager", 2, &["url: \"${LLM_GATEWAY_URL:-http://localhost:8001}\"", "default_timeout: 30"][..]),
        (
            "r2r_mcp_config",
            1,
            &[
                "builtin: r2r",
                "circuit_breaker_success_threshold: 2",
                "log_file: /var/log/r2r_mcp/server.log",
                "url: \"redis://localhost:6379\"",
                "listen: \"127.0.0.1:8080\"",
                "password: \"${R2R_SERVICE_PASSWORD}\"",
                "project_from: client",
                "ingest_roots: [\".\"]",
                "# Left out:",
                "`server.reload`: ",
            ],
        ),
        (
            "chroma_config",
            1,
            &["builtin: chroma", "log_level: INFO", "url: \"http://localhost:8000\"", "max_results: 10"],
        ),
        (
            "rag_mcp_server",
            1,
            &["builtin: rag", "transport: both", "listen: \"127.0.0.1:3000\"", "auth_mode: api_key"],
        ),
    ] {
        let (code, out, err) = run(&foreign(name), &["import", "mcp_servers.yaml"]);
        eprintln!("---- {name}\n{out}---- notes\n{err}");
        assert_eq!(code, Some(0), "{name}: {err}");
        let lacks = |part: &&&str| !out.contains(**part) && !out.contains(&part.replace('"', ""));
        assert_eq!(expected.iter().filter(lacks).collect::<Vec<_>>(), Vec::<&&str>::new(), "{name}: {out}");
        let (code, told, err) = run(&out, &["check", "mcp_servers.yaml"]);
        assert_eq!(code, Some(0), "{name}: {err}");
        assert!(told.starts_with(&format!("mcp_servers.yaml: valid, {servers} server")), "{told}");
        let has_log_folder = std::path::Path::new("/var/log/r2r_mcp").is_dir();
        let is_told = told.contains("there is no folder /var/log/r2r_mcp: `mkdir -p /var/log/r2r_mcp`");
        assert_eq!(is_told, name == "r2r_mcp_config" && !has_log_folder, "{told}");
    }
}

#[test]
fn import_names_each_line_that_it_leaves_out() {
    let (_, out, err) = run(&foreign("r2r_mcp_config"), &["import", "mcp_servers.yaml"]);
    for line in ["server.reload", "server.host", "monitoring.prometheus.port", "monitoring.sentry.dsn"] {
        assert!(
            err.contains(&format!("`{line}`")) && out.contains(&format!("#   `{line}`")),
            "{line}: {err}"
        );
    }
    let file = out.lines().filter(|line| !line.starts_with('#')).collect::<String>();
    assert!(!file.contains("allow_unauthenticated: true"), "nobody wrote that: {out}");
    assert!(!file.contains("SENTRY_DSN"), "{out}");
    let (code, out, err) = run("logging: {level: INFO}\nother: 1\n", &["import", "mcp_servers.yaml"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "it has no server: {err}");
    assert!(err.contains("`other`"), "{err}");
}

/// The key that `import` makes opens the gateway, and nothing else does.
#[tokio::test]
async fn an_imported_file_that_asked_for_keys_asks_for_keys() {
    let (_, yaml, notes) = run(&foreign("rag_mcp_server"), &["import", "mcp_servers.yaml"]);
    let key = notes.split_whitespace().find(|word| word.starts_with("swy_")).expect("a key").to_owned();
    assert!(!yaml.contains(&key), "only its hash is kept");
    let gateway = Gateway::with_config(&yaml.replace("transport: both", "transport: http")).start().await;
    assert_eq!(gateway.get("/servers").await.status, 401);
    let client = gateway.mcp().to(&gateway.url("/api/v1/mcp/servers"));
    let with_key = client.with_header("x-api-key", &key).bare(http::Method::GET, &[]).await;
    assert_eq!(with_key.status, 200, "{with_key:?}");
}

/// Arguments with which other MCP servers are started.
#[test]
fn options_of_other_servers_are_refused_with_ours() {
    for (arguments, expected) in [
        (&["--transport", "stdio"][..], "`switchyard stdio`"),
        (&["--transport", "http", "--port", "3000"], "`transport: http`"),
        (&["serve", "--port", "3000"], "`--listen 127.0.0.1:PORT`"),
    ] {
        let (code, _, told) = run("", arguments);
        assert!(code == Some(2) && told.contains(expected), "{arguments:?}: {told}");
    }
}

#[test]
fn success_threshold_of_a_server_is_understood() {
    let yaml = foreign("manager").replace("    timeout: 60\n", "    timeout: 60\n    success_threshold: 2\n");
    assert_ne!(yaml, foreign("manager"));
    assert_eq!(problems(&yaml), []);
}

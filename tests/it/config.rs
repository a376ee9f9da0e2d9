//! The configuration file: valid files load, invalid ones are refused with clear problems, and no
//! secret is printed.
//!
//! `tests/configs/{good,bad}/NAME.yaml` is next to the expected output of `check`, `NAME.expected`.
//! `UPDATE_GOLDEN=1` writes the expected files again; review the difference before you commit it.

use std::collections::BTreeMap;
use std::env::VarError;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use auth::{Authenticator, Role};
use proptest::prelude::*;
use settings::problem::Error;
use switchyard_mcp::program::Config;

use crate::support::Gateway;

/// A secret in the files; never in the output.
const LITERAL: &str = "s3cret-literal";
/// A secret in the environment; never in the output.
const CANARY: &str = "canary";

const ENVIRONMENT: [(&str, &str); 11] = [
    ("SEAL_KEY", "canary-canary-canary-canary-canary"),
    ("HOME", "/home/canary"),
    ("TOKEN", "canary-token"),
    ("PORT", "8001"),
    ("WORD", "canary-word"),
    ("EMPTY", ""),
    ("LINES", "canary\ncanary"),
    ("DELAY", "2.5"),
    ("INJECTION", "x\n  two: {url: http://canary}\n# \""),
    ("INJECTION_LINE", "canary, X-Other: canary}"),
    ("ENABLED", "true"),
];

fn environment(name: &str) -> Result<String, VarError> {
    let found = ENVIRONMENT.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| (*value).to_owned()).ok_or(VarError::NotPresent)
}

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs").join(kind)
}

/// The names of the files of one kind, without extension.
fn names(kind: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder(kind)).expect("the folder is there");
    let files = entries.map(|entry| entry.expect("readable").path());
    let mut names: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Arguments that check a file and connect to no server.
fn only(path: &Path) -> switchyard_mcp::program::Check {
    let config = switchyard_mcp::program::ConfigFile { config: path.to_owned(), is_default: false };
    switchyard_mcp::program::Check { file: None, config, connect: false }
}

/// Returns both outputs of `check` for a file.
fn check(path: &Path) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    switchyard_mcp::program::check::run(&only(path), &environment, &mut out, &mut err);
    let text = |bytes: Vec<u8>| {
        // Only the name of the file, so that the output does not depend on where the tests run.
        let folder = format!("{}/", path.parent().expect("a folder").display());
        String::from_utf8(bytes).expect("UTF-8").replace(&folder, "")
    };
    (text(out), text(err))
}

fn compare(path: &Path, found: &str) {
    let golden = path.with_extension("expected");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, found).expect("can be written");
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    assert_eq!(found, expected, "{} differs; UPDATE_GOLDEN=1 writes it anew", golden.display());
}

#[test]
fn every_bad_file_is_refused_as_recorded() {
    let names = names("bad");
    assert!(names.len() >= 47, "files are missing: {}", names.len());
    for name in names {
        let path = folder("bad").join(format!("{name}.yaml"));
        let (out, err) = check(&path);
        assert_eq!(out, "", "{name} is not refused");
        assert!(!err.contains(LITERAL) && !err.contains(CANARY), "a secret shows:\n{err}");
        compare(&path, &err);
    }
}

#[test]
fn every_good_file_loads_as_recorded() {
    let names = names("good");
    assert!(names.len() >= 10, "files are missing: {}", names.len());
    for name in names {
        let path = folder("good").join(format!("{name}.yaml"));
        let (out, err) = check(&path);
        assert_eq!(err, "", "{name} is refused");
        assert!(!out.contains(LITERAL) && !out.contains(CANARY), "a secret shows:\n{out}");
        compare(&path, &out);
    }
}

#[test]
fn no_debug_text_of_a_configuration_has_a_secret() {
    let path = folder("good").join("every_field.yaml");
    let config = Config::load(&path, &environment).expect("valid");
    let shown = format!("{config:?}");
    assert!(!shown.contains(LITERAL) && !shown.contains("canary-token"), "{shown}");
}

#[test]
fn the_registry_that_ships_with_the_project_loads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp_servers.yaml");
    let config = Config::load(&path, &environment).expect("valid");
    assert_eq!(config.manager.servers.len(), 1);

    // The commented examples are valid too.
    let text = std::fs::read_to_string(&path).expect("readable");
    let examples = text.lines().skip_while(|line| !line.contains("Five servers")).skip(2);
    let examples: Vec<_> =
        examples.filter_map(|line| Some(format!("  {}", line.strip_prefix("  # ")?))).collect();
    let text = format!("mcp_servers:\n{}\n", examples.join("\n"));
    let environment = |name: &str| match name {
        "ISSUES_TOKEN" | "R2R_SERVICE_EMAIL" | "R2R_SERVICE_PASSWORD" => Ok("t".to_owned()),
        _ => environment(name),
    };
    let config =
        Config::parse(&path, text.as_bytes(), &environment).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<_> = config.manager.servers.iter().map(|server| server.name.to_string()).collect();
    assert_eq!(names, ["everything", "files", "memory", "time", "documents", "issues", "r2r", "rag"]);
}

/// The code blocks of the reference that begin with `kind`.
fn blocks(document: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}\n");
    document.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or("").to_owned()).collect()
}

#[test]
fn the_reference_tells_the_truth() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let read = |page| std::fs::read_to_string(path.with_file_name(page)).expect("readable");
    let document = ["configuration.md", "check.md", "import.md"].map(read).concat();
    let bad = std::fs::read_to_string(folder("bad").join("everything_at_once.yaml")).expect("readable");
    let answer =
        std::fs::read_to_string(folder("bad").join("everything_at_once.expected")).expect("recorded");
    assert!(blocks(&document, "text").contains(&answer), "the error that is shown is not the real one");
    let examples = blocks(&document, "yaml");
    assert!(examples.contains(&bad) && examples.len() >= 4);

    let environment = |name: &str| match name {
        "JWT_SECRET" | "ISSUES_TOKEN" | "TICKETS_TOKEN" => Ok("0123456789abcdef0123456789abcdef".to_owned()),
        "R2R_SERVICE_EMAIL"
        | "R2R_SERVICE_PASSWORD"
        | "RAG_API_KEY"
        | "REPORTS_CLIENT_SECRET"
        | "REPORTS_PRIVATE_KEY" => Ok("canary".to_owned()),
        _ => environment(name),
    };
    let pages = [
        "../README.md",
        "chroma.md",
        "login-services.md",
        "logins/machine.md",
        "logins/principal.md",
        "logins/shared.md",
        "migrate.md",
        "r2r.md",
        "rag.md",
    ];
    for page in pages {
        let page = std::fs::read_to_string(path.with_file_name(page)).expect("readable");
        let examples = blocks(&page, "yaml");
        assert!(!examples.is_empty());
        for example in &examples {
            let read = Config::parse(Path::new("example.yaml"), example.as_bytes(), &environment);
            read.unwrap_or_else(|error| panic!("{error}"));
        }
    }
    for example in examples.iter().filter(|example| **example != bad) {
        let read = Config::parse(Path::new("example.yaml"), example.as_bytes(), &environment);
        read.unwrap_or_else(|error| panic!("{error}"));
    }
    let every = std::fs::read_to_string(folder("good").join("every_field.yaml")).expect("readable");
    for line in every.lines().filter(|line| !line.starts_with("  ") || line.starts_with("    ")) {
        let Some((field, _)) = line.trim().split_once(": ").filter(|(key, _)| !key.starts_with('-')) else {
            continue;
        };
        let known = [format!("`{field}`"), format!(".{field}`"), format!("`{field}.")];
        let known = known.iter().any(|written| document.contains(written));
        assert!(known || field.starts_with("X-"), "`{field}` is not explained");
    }
}

/// Runs the program with only [`ENVIRONMENT`] as its environment.
fn program(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
    command.args(arguments).env_clear().envs(ENVIRONMENT).current_dir(folder(""));
    let output = command.output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_key_file_that_cannot_be_read_is_the_same_exit_code_from_serve_as_from_check() {
    let jwt = "{issuer: i, audience: a, algorithm: RS256, jwks_file: missing.json}";
    let gateway =
        Gateway::with_config(&format!("server: {{auth_mode: jwt, jwt: {jwt}}}\nmcp_servers: {{}}\n"));
    let serve = ["serve", "--config", "mcp_servers.yaml", "--listen", "127.0.0.1:0"];
    for arguments in [&["check", "mcp_servers.yaml"][..], &serve] {
        let output = gateway.output(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains("missing.json"), "{arguments:?}: {told}");
    }
}

#[test]
fn the_program_answers_and_exits_as_documented() {
    for name in ["everything_at_once", "environment_unset", "syntax_tab"] {
        let (code, out, err) = program(&["check", &format!("bad/{name}.yaml")]);
        let expected =
            std::fs::read_to_string(folder("bad").join(format!("{name}.expected"))).expect("recorded");
        assert_eq!((code, out.as_str(), err.replace("bad/", "")), (Some(2), "", expected));
    }
    let (code, out, err) = program(&["check", "good/specification_example.yaml"]);
    let expected = folder("good").join("specification_example.expected");
    let expected = std::fs::read_to_string(expected).expect("recorded");
    assert_eq!((code, out.replace("good/", ""), err.as_str()), (Some(0), expected, ""));

    let (code, out, err) = program(&["check", "absent.yaml"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.starts_with("absent.yaml: the configuration file cannot be read: "), "{err}");
    assert_eq!(program(&["chek"]).0, Some(2));

    let (code, out, err) = program(&["import", "import/cursor.json"]);
    assert_eq!((code, err.lines().count()), (Some(0), 4), "{err}");
    assert!(out.contains("\nmcp_servers:\n  github:\n"), "{out}");
    assert!(err.starts_with("import/cursor.json: both: not taken over: `command`, `args`\n"), "{err}");
    let (code, out, err) = program(&["import", "good/empty.yaml"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.starts_with("good/empty.yaml:1:") && err.contains("it is empty"), "{err}");
    assert_eq!(program(&["import", "absent.json"]).0, Some(2));
}

#[test]
fn keys_and_tokens_that_are_made_let_somebody_in() {
    let role = |yaml: &str, environment: &settings::expand::Lookup<'_>, credential: &str| {
        let config = Config::parse(Path::new("c.yaml"), yaml.as_bytes(), environment);
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        let authenticator = Authenticator::new(&config.server.auth).expect("usable keys");
        let mut headers = http::HeaderMap::new();
        headers.insert("authorization", format!("Bearer {credential}").parse().expect("a header"));
        authenticator.authenticate(&headers).expect("let in").role()
    };
    for (more, made) in [
        (&["--id", "123", "--role", "superuser"][..], Role::Superuser),
        (&["--id", "ci", "--role", "caller"], Role::Caller),
        (&[], Role::Reader),
    ] {
        let (code, out, err) = program(&[&["key", "new"], more].concat());
        assert_eq!((code, err.as_str()), (Some(0), ""), "{more:?}");
        let key = out.lines().find_map(|line| line.strip_prefix("#   ")).expect("a key");
        assert_eq!((role(&out, &environment, key), out.matches(key).count()), (made, 1), "{more:?}");
    }

    let yaml = "server:\n  auth_mode: jwt\n  jwt: {issuer: i, audience: a, algorithm: HS256, secret: 0123456789abcdef0123456789abcdef}\n";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("c.yaml");
    std::fs::write(&path, yaml).expect("can be written");
    let path = path.to_string_lossy();
    let (code, out, err) = program(&["token", "--config", &path, "--sub", "me"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(role(yaml, &environment, out.trim()), Role::Reader);

    let (code, out, err) = program(&["token", "--config", "good/empty.yaml", "--sub", "me"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("auth_mode"), "{err}");
    assert_eq!(program(&["key", "new", "--id", "Not An Id"]).0, Some(2));
}

/// Any text that a file may contain, with references and canaries in every place of a value.
fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("${CANARY}".to_owned()),
        Just("\"x ${CANARY} y\"".to_owned()),
        Just("$CANARY".to_owned()),
        Just("http://u:${CANARY}@h/p?k=${CANARY}".to_owned()),
        Just("http://h/${CANARY}".to_owned()),
        Just("\"${CANARY:-d}\"".to_owned()),
        Just("{A: \"${CANARY}\", b: \"$CANARY\"}".to_owned()),
        Just("[\"${CANARY}\", 5, {c: $CANARY}]".to_owned()),
        Just("{bearer: \"${CANARY}\"}".to_owned()),
        Just("|\n        $CANARY".to_owned()),
        Just("http://h".to_owned()),
        Just("npx".to_owned()),
        Just("5".to_owned()),
        Just("[*x".to_owned()),
        Just(format!("[{0}, {0}]", "{id: $CANARY, role: reader, hash: \"sha256:00\", expires: $CANARY}")),
        Just(
            "{issuer: $CANARY, audience: $CANARY, algorithm: $CANARY, secret: $CANARY, leeway: $CANARY}"
                .to_owned()
        ),
    ]
}

fn any_field() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "url",
        "transport",
        "timeout",
        "retry_attempts",
        "retry_delay",
        "retry_max_delay",
        "enabled",
        "description",
        "command",
        "args",
        "env",
        "cwd",
        "pass_env",
        "env_file",
        "headers",
        "auth",
        "tools",
        "limits",
        "builtin",
        "handbook",
        "unknown",
        "circuit_breaker_threshold",
        "circuit_breaker_timeout",
    ])
}

fn any_server_field() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "listen",
        "allowed_hosts",
        "allowed_origins",
        "auth_mode",
        "api_keys",
        "jwt",
        "log_format",
        "max_sessions",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_value_of_the_environment_is_ever_shown(
        fields in prop::collection::btree_map(any_field(), any_value(), 0..5),
        canary in prop::sample::select(vec!["canary", "7007007", "http://canary/canary", "true\ncanary", "http", "npx-canary", ""]),
        global in any_value(),
        listener in prop::collection::btree_map(any_server_field(), any_value(), 0..3),
    ) {
        let fields: BTreeMap<&str, String> = fields;
        let mut text = format!("tool_names: {global}\nmcp_servers:\n  one:\n");
        for (name, value) in &fields {
            let _ = writeln!(text, "    {name}: {value}");
        }
        let server: BTreeMap<&str, String> = listener;
        text.push_str("server:\n");
        for (name, value) in &server {
            let _ = writeln!(text, "  {name}: {value}");
        }
        let environment = |name: &str| match name {
            "CANARY" => Ok(canary.to_owned()),
            _ => Err(VarError::NotPresent),
        };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("c.yaml");
        std::fs::write(&path, &text).expect("can be written");
        let (mut out, mut err) = (Vec::new(), Vec::new());
        switchyard_mcp::program::check::run(&only(&path), &environment, &mut out, &mut err);
        let answer = String::from_utf8([out, err].concat()).expect("UTF-8");
        for secret in ["canary", "7007007"] {
            prop_assert!(!answer.contains(secret), "{secret} shows in\n{answer}\nof\n{text}");
        }
        if let Err(Error::Invalid(report)) = Config::load(&path, &environment) {
            let debug = format!("{report:?}");
            prop_assert!(!debug.contains("canary") && !debug.contains("7007007"), "{debug}");
        }
    }
}

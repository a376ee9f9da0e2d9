//! Every shell block of the pages uses commands, options and routes that exist.
//!
//! A line of `switchyard` is parsed by its arguments, and the path of a `curl` line is looked up in the `OpenAPI` document.
//! Lines of other programs are accepted if the program is one of [`OTHERS`].

use clap::CommandFactory;
use serde_json::Value;

use super::pages::blocks;
use crate::cli::Arguments;

/// Paths of a gateway that are not in the `OpenAPI` document.
const PATHS: [&str; 5] = ["/mcp", "/sse", "/openapi.json", "/docs", "/docs/errors"];

/// Programs of other makers, and scripts of this repository, that the tests of pages do not start.
const OTHERS: [&str; 26] = [
    "./scripts/",
    "amp",
    "benches/",
    "cargo",
    "chmod",
    "chroma",
    "claude",
    "code",
    "codex",
    "cp",
    "curl",
    "docker",
    "echo",
    "export",
    "gemini",
    "git",
    "kill",
    "kubectl",
    "mv",
    "npx",
    "openssl",
    "pip",
    "scripts/",
    "sudo",
    "systemctl",
    "uvx",
];

/// The commands of a block: continued lines are joined, comments and prompts are removed.
fn commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ").replace("=$(", "= ");
    let lines = text.lines().flat_map(|line| line.split(" && ").map(str::to_owned).collect::<Vec<_>>());
    lines.map(|line| words(&line)).filter(|words| !words.is_empty()).collect()
}

/// Splits a line as a shell does, up to a comment, a pipe or a redirection. Leaves out variables at its start.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => (quote, is_word) = (Some(letter), true),
            (None, '#') if !is_word => break,
            (None, '|' | '>' | '<' | ';' | '&' | ')') => break,
            (None, ' ' | '\t') => {
                words.extend(std::mem::take(&mut is_word).then(|| std::mem::take(&mut word)));
            }
            _ => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    words.extend(is_word.then_some(word));
    let is_variable = |word: &String| {
        word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    words.into_iter().skip_while(is_variable).collect()
}

/// Whether `path` is a route of the gateway.
fn is_route(path: &str, document: &Value) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |route: &str| {
        let route: Vec<&str> = route.split('/').collect();
        route.len() == parts.len() && route.iter().zip(&parts).all(|(a, b)| a == b || a.starts_with('{'))
    };
    let routes = document["paths"].as_object().expect("paths");
    let is_mcp =
        |base: &str| path == base || path.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
    routes.keys().any(|route| fits(route)) || PATHS.iter().any(|base| is_mcp(base))
}

/// The path of a URL of a gateway; `None` for a URL elsewhere.
fn path_of(word: &str) -> Option<&str> {
    let rest = word.strip_prefix("http://")?;
    let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, _)| (host, &rest[host.len()..]));
    let path = path.split('?').next().unwrap_or_default();
    (host == "127.0.0.1:8080" || host == "localhost:8080").then_some(if path.is_empty() { "/" } else { path })
}

/// Returns why a command is wrong.
fn problem(words: &[String], document: &Value) -> Option<String> {
    let program = words.first()?.as_str();
    match program.rsplit('/').next().unwrap_or_default() {
        "switchyard" => {
            let arguments = std::iter::once("switchyard").chain(words[1..].iter().map(String::as_str));
            let error = <Arguments as CommandFactory>::command().try_get_matches_from(arguments).err()?;
            let is_page = matches!(
                error.kind(),
                clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion
            );
            (!is_page).then(|| format!("{}: {error}", words.join(" ")))
        }
        "curl" => {
            let paths = words.iter().filter_map(|word| path_of(word));
            let unknown = paths.filter(|path| !is_route(path, document)).collect::<Vec<_>>();
            (!unknown.is_empty()).then(|| format!("no route {}", unknown.join(" ")))
        }
        _ if OTHERS
            .iter()
            .any(|other| program == *other || other.ends_with('/') && program.starts_with(other)) =>
        {
            None
        }
        _ => Some(format!("`{program}` is not checked: mark the block with `<!-- not run: REASON -->`")),
    }
}

fn document() -> Value {
    let text = std::fs::read_to_string(super::file("openapi/switchyard.json")).expect("it is committed");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn every_shell_block_uses_commands_and_routes_that_exist() {
    let (blocks, document) = (blocks("sh"), document());
    let wrong: Vec<String> = blocks
        .iter()
        .flat_map(|block| {
            let problems = commands(&block.text).into_iter().filter_map(|words| problem(&words, &document));
            problems.map(|problem| format!("{}: {problem}", block.place)).collect::<Vec<_>>()
        })
        .collect();
    assert!(wrong.is_empty(), "{} commands are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(blocks.len() > 40, "only {} blocks were found", blocks.len());
}

#[test]
fn a_wrong_option_and_a_wrong_route_are_found() {
    let document = document();
    let wrong = |line: &str| commands(line).iter().filter_map(|words| problem(words, &document)).count();
    assert_eq!(wrong("switchyard check --conect mcp_servers.yaml # no"), 1);
    assert_eq!(wrong("A=1 switchyard check --connect > out"), 0);
    assert_eq!(wrong("curl -s http://127.0.0.1:8080/api/v1/mcp/tolls"), 1);
    assert_eq!(wrong("curl -s \\\n  'http://127.0.0.1:8080/api/v1/mcp/servers/a b/tools?x=1' | jq"), 0);
    assert_eq!(wrong("frobnicate"), 1);
}

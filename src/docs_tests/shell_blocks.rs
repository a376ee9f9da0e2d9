//! Every command in the pages uses commands, options and routes that exist: in shell blocks, and after `$` in output.
//!
//! A command of `switchyard` is parsed by its arguments, and the path of a `curl` command is looked up in the `OpenAPI`
//! document. Scripts of this repository have to be there. Other programs are accepted if they are in [`OTHERS`].

use clap::CommandFactory;
use serde_json::Value;

use super::pages::{Block, blocks};
use crate::cli::Arguments;

/// Paths of a gateway that are not in the `OpenAPI` document.
const PATHS: [&str; 5] = ["/mcp", "/sse", "/openapi.json", "/docs", "/docs/errors"];

/// Programs of other makers that the tests of pages do not start.
const OTHERS: [&str; 31] = [
    "amp",
    "base64",
    "cargo",
    "cd",
    "chmod",
    "chroma",
    "claude",
    "code",
    "codex",
    "cp",
    "curl",
    "cut",
    "docker",
    "echo",
    "export",
    "gemini",
    "git",
    "jq",
    "kill",
    "kubectl",
    "mkdir",
    "mv",
    "node",
    "npx",
    "openssl",
    "pip",
    "printf",
    "sudo",
    "systemctl",
    "tr",
    "uvx",
];

/// Folders with scripts of this repository, which have to be there.
const SCRIPTS: [&str; 4] = ["./scripts/", "scripts/", "tests/", "benches/"];

/// The commands of a block: continued lines are joined, comments and prompts are removed.
fn commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ").replace("=$(", "= ");
    text.lines().flat_map(of_line).collect()
}

/// The lines of a block of output that were typed, after `$ `.
fn typed(text: &str) -> String {
    let joined = text.replace("\\\n", " ");
    joined.lines().filter_map(|line| Some(format!("{}\n", line.trim().strip_prefix("$ ")?))).collect()
}

/// The commands of one line, split as by a shell: between pipes and other separators, without redirections and comments, and
/// without variables before the program.
fn of_line(line: &str) -> Vec<Vec<String>> {
    let (mut found, mut quote, mut letters) = (Line::default(), None, line.chars().peekable());
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                found.word.get_or_insert_default();
            }
            (None, '#') if found.word.is_none() => break,
            (None, '<' | '>') => {
                while letters.next_if(|next| "<>&".contains(*next)).is_some() {}
                found.redirect();
            }
            (None, '|' | ';' | '&' | '(' | ')') => found.end_command(),
            (None, ' ' | '\t') => found.end_word(),
            _ => found.word.get_or_insert_default().push(letter),
        }
    }
    found.end_command();
    found.commands
}

/// A line that is being split.
#[derive(Default)]
struct Line {
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    /// Whether the next word is the target of a redirection.
    is_target: bool,
}

impl Line {
    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if !std::mem::take(&mut self.is_target) {
            self.words.push(word);
        }
    }

    /// Begins the target of a redirection. A number before it is a descriptor.
    fn redirect(&mut self) {
        self.word.take_if(|word| word.chars().all(|c| c.is_ascii_digit()));
        self.end_word();
        self.is_target = true;
    }

    fn end_command(&mut self) {
        self.end_word();
        self.is_target = false;
        let is_variable = |word: &String| {
            let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            word.split_once('=').is_some_and(|(name, _)| name.chars().all(is_of_name))
        };
        let words: Vec<_> = self.words.drain(..).skip_while(is_variable).collect();
        self.commands.extend((!words.is_empty()).then_some(words));
    }
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
        _ if OTHERS.contains(&program) => None,
        _ if SCRIPTS.iter().any(|folder| program.starts_with(folder)) => {
            (!super::file(program).is_file()).then(|| format!("there is no `{program}`"))
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
    let (mut blocks, document) = (blocks("sh"), document());
    let shown = ["console", "text"].iter().flat_map(|language| super::pages::blocks(language));
    blocks.extend(shown.map(|block| Block { text: typed(&block.text), ..block }));
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
    assert_eq!(wrong("echo 'a | b' 2>/dev/null | switchyard ad --yes >> out & frobnicate"), 2);
    assert_eq!(wrong("switchyard check 2>&1 >out && (switchyard tools | jq '.x | y'; A=1 switchyard)"), 0);
    assert_eq!(wrong("scripts/test lint && scripts/tset"), 1);
    assert_eq!(wrong(&typed("$ switchyard check --connect \\\n  --confg x\nswitchyard chek\n")), 1);
}

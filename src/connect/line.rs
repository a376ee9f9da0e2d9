//! Command lines that add a server to a client, as the pages of servers have them, and a program or a URL alone.
//!
//! | client | line |
//! |---|---|
//! | Claude Code, Codex, Gemini CLI, Qwen Code, Amp, Grok Build | `CLIENT mcp add [OPTIONS] NAME URL`, or a program instead of the URL, with `--` or without |
//! | Claude Code | `claude mcp add-json NAME JSON` |
//! | VS Code | `code --add-mcp JSON` |
//! | Amazon Q, Kiro | `q mcp add --name NAME --command PROGRAM --args A,B` |
//!
//! Sources: the documentation of these clients, read on 2026-11-28.

use super::link::{OneServer, named};
use crate::config::import::json::{self, Json, Members};
use crate::config::import::times::TIMEOUT_MS;
use settings::one_line;

/// Clients with `mcp add`.
const CLIENTS: [&str; 9] = ["amp", "claude", "codex", "gemini", "grok", "kiro-cli", "q", "qchat", "qwen"];
/// Programs with `--add-mcp`.
const EDITORS: [&str; 5] = ["code", "code-insiders", "codium", "cursor", "windsurf"];

/// The meaning of an option of a line.
#[derive(Clone, Copy, PartialEq)]
enum OptionKind {
    Env,
    Header,
    Transport,
    Url,
    Bearer,
    Name,
    Command,
    Args,
    Timeout,
    Description,
    IncludedTools,
    ExcludedTools,
    /// It has a value without a meaning here.
    Ignored,
    /// It has neither.
    Flag,
}

use OptionKind::{
    Args, Bearer, Command, Description, Env, ExcludedTools, Flag, Header, Ignored, IncludedTools, Name,
    Timeout, Transport, Url,
};

/// The options of all clients.
const OPTIONS: &[(&str, OptionKind)] = &[
    ("-e", Env),
    ("--env", Env),
    ("-H", Header),
    ("--header", Header),
    ("-t", Transport),
    ("--transport", Transport),
    ("--url", Url),
    ("--bearer-token-env-var", Bearer),
    ("--name", Name),
    ("--command", Command),
    ("--args", Args),
    ("--timeout", Timeout),
    ("--description", Description),
    ("--include-tools", IncludedTools),
    ("--exclude-tools", ExcludedTools),
    ("-s", Ignored),
    ("--scope", Ignored),
    ("--agent", Ignored),
    ("--trust", Flag),
    ("--force", Flag),
];

/// Reads `text`, if it is a command line.
pub(super) fn read(text: &str) -> Option<Result<OneServer, String>> {
    let line = text.trim().trim_start_matches("$ ").replace("\\\r\n", " ").replace("\\\n", " ");
    let count = line.lines().filter(|line| is_command(line)).count();
    if count > 1 {
        return Some(Err(format!("{count} commands are in it: paste one of them")));
    }
    let words = shlex::split(&line)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [editor, "--add-mcp", json, ..] if EDITORS.contains(editor) => Some(of_json(None, json)),
        ["claude", "mcp", "add-json", rest @ ..] => Some(of_add_json(rest)),
        [client, "mcp", "add", rest @ ..] if CLIENTS.contains(client) => Some(of_add(rest)),
        [client, "mcp", ..] if CLIENTS.contains(client) => Some(Err(format!("expected `{client} mcp add`"))),
        _ => of_target(&line, &words),
    }
}

/// Whether a line of a text begins with one of the commands above.
fn is_command(line: &str) -> bool {
    let mut words = line.trim_start().trim_start_matches("$ ").split_whitespace();
    match (words.next(), words.next()) {
        (Some(client), Some("mcp")) => CLIENTS.contains(&client),
        (Some(editor), Some("--add-mcp")) => EDITORS.contains(&editor),
        _ => false,
    }
}

/// Reads the words after `add-json`, whose options have no meaning here.
fn of_add_json(words: &[&str]) -> Result<OneServer, String> {
    let mut plain = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match OPTIONS.iter().find(|(name, _)| name == word) {
            Some((_, Flag)) => {}
            Some(_) => drop(rest.next()),
            None => plain.push(*word),
        }
    }
    match plain.as_slice() {
        [name, json, ..] => of_json(Some(name), json),
        _ => Err("expected a name and the JSON of its entry".to_owned()),
    }
}

/// Reads an entry, whose name may be in it.
fn of_json(name: Option<&str>, text: &str) -> Result<OneServer, String> {
    let entry = json::read(text).map_err(|error| format!("the line: {error}"))?;
    if !matches!(entry, Json::Object(_)) {
        return Err("the line: expected an object".to_owned());
    }
    let server = named(entry);
    Ok(OneServer { name: name.map(str::to_owned).or(server.name), ..server })
}

/// A line that was read up to a word.
#[derive(Default)]
struct Words<'w> {
    name: Option<&'w str>,
    /// The URL, or the program with its arguments.
    target: Vec<&'w str>,
    /// Those of options.
    chosen: Vec<&'w str>,
    chosen_args: Vec<&'w str>,
    members: Members,
    env: Members,
    headers: Members,
    /// Whether `--` says that it is a program.
    is_program: bool,
}

/// Reads the words after `add`.
fn of_add(words: &[&str]) -> Result<OneServer, String> {
    let mut line = Words::default();
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        // Words after the program are its arguments.
        let is_in_program = line.target.first().is_some_and(|target| !is_url(target));
        if *word == "--" && !is_in_program {
            line.is_program = true;
            line.take_program(std::mem::take(&mut rest));
        } else if is_in_program || !word.starts_with('-') {
            line.take_word(word);
        } else {
            rest = line.take_option(word, rest)?;
        }
    }
    line.end()
}

impl<'w> Words<'w> {
    fn take_program(&mut self, words: &[&'w str]) {
        let name = if self.name.is_none() && self.target.is_empty() { words.len().min(1) } else { 0 };
        self.name = self.name.or(words.get(..name).and_then(|words| words.first()).copied());
        self.target.extend(&words[name..]);
    }

    fn take_word(&mut self, word: &'w str) {
        if self.name.is_none() { self.name = Some(word) } else { self.target.push(word) }
    }

    /// Reads an option and its value, and returns the words after them.
    fn take_option<'r>(&mut self, word: &'w str, rest: &'r [&'w str]) -> Result<&'r [&'w str], String> {
        let (name, attached) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let unknown = || format!("the option `{}` is not known here", one_line(name));
        let (_, kind) = OPTIONS.iter().find(|(known, _)| *known == name).ok_or_else(unknown)?;
        if *kind == Flag {
            return Ok(rest);
        }
        let (value, mut rest) = match (attached, rest.split_first()) {
            (Some(value), _) => (value, rest),
            (None, Some((value, rest))) => (*value, rest),
            (None, None) => return Err(format!("the option `{name}` has no value")),
        };
        self.take_value(*kind, value)?;
        // Claude Code and Gemini CLI take several values after one option.
        while *kind == Env
            && let Some((value, after)) = rest.split_first()
            && is_variable(value)
        {
            self.take_value(Env, value)?;
            rest = after;
        }
        Ok(rest)
    }

    fn take_value(&mut self, kind: OptionKind, value: &'w str) -> Result<(), String> {
        let text = |value: &str| Json::Text(value.to_owned());
        let list = || Json::List(value.split(',').map(|item| text(item.trim())).collect());
        let mut add = |name: &str, value| self.members.push((name.to_owned(), value));
        match kind {
            Env => {
                let (name, value) = value.split_once('=').ok_or("expected NAME=VALUE after `--env`")?;
                self.env.push((name.to_owned(), text(value)));
            }
            Header => {
                let (name, value) = value.split_once(':').ok_or("expected `NAME: VALUE` after `--header`")?;
                self.headers.push((name.trim().to_owned(), text(value.trim())));
            }
            Bearer => self.headers.push(("Authorization".to_owned(), text(&format!("Bearer ${{{value}}}")))),
            // Otherwise it is found out.
            Transport if value == "sse" => add("type", text(value)),
            Url | Command => self.chosen.push(value),
            Args => self.chosen_args.extend(value.split(',')),
            Name => self.name = Some(value),
            Timeout => add(TIMEOUT_MS, text(value)),
            Description => add("description", text(value)),
            IncludedTools => add("includeTools", list()),
            ExcludedTools => add("excludeTools", list()),
            Transport | Ignored | Flag => {}
        }
        Ok(())
    }

    fn end(self) -> Result<OneServer, String> {
        let Self { name, target, chosen, chosen_args, mut members, env, headers, is_program } = self;
        let target: Vec<_> = chosen.into_iter().chain(chosen_args).chain(target).collect();
        let incomplete = || "expected a name with a URL, or with a command after `--`".to_owned();
        let name = name.ok_or_else(incomplete)?;
        match target.split_first().ok_or_else(incomplete)? {
            (url, []) if is_url(url) && !is_program => {
                members.push(("url".to_owned(), Json::Text((*url).to_owned())));
            }
            (url, [word, ..]) if is_url(url) && !is_program => {
                return Err(format!("`{}` is not expected after the URL", one_line(word)));
            }
            (program, args) => members.extend(program_members(program, args)),
        }
        for (key, pairs) in [("env", env), ("headers", headers)] {
            members.extend((!pairs.is_empty()).then_some((key.to_owned(), Json::Object(pairs))));
        }
        Ok(OneServer { name: Some(name.to_owned()), entry: Json::Object(members), inputs: None })
    }
}

fn program_members(program: &str, args: &[&str]) -> Members {
    let text = |text: &str| Json::Text(text.to_owned());
    let args: Vec<_> = args.iter().map(|arg| text(arg)).collect();
    let args = (!args.is_empty()).then_some(("args".to_owned(), Json::List(args)));
    std::iter::once(("command".to_owned(), text(program))).chain(args).collect()
}

/// Reads a line that is a URL, or a program with its arguments.
fn of_target(line: &str, words: &[&str]) -> Option<Result<OneServer, String>> {
    let is_begin = |word: &&&str| word.starts_with(|c: char| c.is_alphanumeric() || "/.~".contains(c));
    let first = words.first().filter(is_begin).filter(|_| !line.contains(['\n', '{']))?;
    let alone = |members| Some(Ok(OneServer { name: None, entry: Json::Object(members), inputs: None }));
    if is_url(first) && words.len() == 1 {
        return alone(vec![("url".to_owned(), Json::Text((*first).to_owned()))]);
    }
    let env: Members = words.iter().map_while(|word| variable(word)).collect();
    let (program, args) = words.get(env.len()..)?.split_first()?;
    if program.contains(':') || program.ends_with('=') || args.first() == Some(&"=") {
        return None;
    }
    let mut members = program_members(program, args);
    members.extend((!env.is_empty()).then_some(("env".to_owned(), Json::Object(env))));
    alone(members)
}

/// Reads `NAME=VALUE`.
fn variable(word: &str) -> Option<(String, Json)> {
    let (name, value) = word.split_once('=').filter(|(name, _)| !name.is_empty())?;
    Some((name.to_owned(), Json::Text(value.to_owned())))
}

/// Whether a word is a variable with its value, and not a URL with a query or a path.
fn is_variable(word: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_of_name))
}

pub(crate) fn is_url(word: &str) -> bool {
    word.starts_with("http://") || word.starts_with("https://") || word.contains("${")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_client_have_the_same_server() {
        let program = r#"{"command": "npx", "args": ["-y", "a b"], "env": {"K": "v=w"}}"#;
        let url = r#"{"url": "https://a/mcp", "headers": {"X-A": "b: c"}}"#;
        for (line, expected) in [
            ("claude mcp add a -e K=v=w -- npx -y 'a b'", program),
            ("claude mcp add --env K=v=w a npx -y 'a b'", program),
            ("$ codex mcp add a --env K=v=w \\\n  -- npx -y 'a b'\n", program),
            (
                "claude mcp add a -- ${HOME}/b --root /",
                r#"{"command": "${HOME}/b", "args": ["--root", "/"]}"#,
            ),
            ("gemini mcp add -s user -e K=v=w --trust a npx -y 'a b'", program),
            (
                r#"claude mcp add-json -s user a '{"command":"npx","args":["-y","a b"],"env":{"K":"v=w"}}'"#,
                program,
            ),
            (
                r#"code --add-mcp '{"name":"a","command":"npx","args":["-y","a b"],"env":{"K":"v=w"}}'"#,
                program,
            ),
            ("q mcp add --name a --command npx --args '-y,a b' --env K=v=w", program),
            ("claude mcp add --transport http -H 'X-A: b: c' a https://a/mcp", url),
            ("gemini mcp add --transport http a https://a/mcp --header 'X-A: b: c'", url),
            (
                "codex mcp add a --url https://a/mcp --bearer-token-env-var T",
                r#"{"url": "https://a/mcp", "headers": {"Authorization": "Bearer ${T}"}}"#,
            ),
            ("claude mcp add -t sse a https://a/sse", r#"{"type": "sse", "url": "https://a/sse"}"#),
            ("claude mcp add -e A=1 B=2 a -- npx", r#"{"command": "npx", "env": {"A": "1", "B": "2"}}"#),
            (
                "gemini mcp add --timeout 3000 --include-tools x,y --exclude-tools=z a npx",
                r#"{"timeout_ms": "3000", "includeTools": ["x", "y"], "excludeTools": ["z"], "command": "npx"}"#,
            ),
        ] {
            let read = read(line)
                .unwrap_or_else(|| panic!("{line}"))
                .unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(read.name.as_deref(), Some("a"), "{line}");
            assert_eq!(Ok(read.entry), json::read(expected), "{line}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_used_says_why_and_other_texts_are_none() {
        for (line, reason) in [
            ("claude mcp list", "expected `claude mcp add`"),
            ("claude mcp add a", "expected a name with a URL"),
            ("claude mcp add --odd a b", "`--odd` is not known"),
            ("claude mcp add a https://a b", "not expected after the URL"),
            ("claude mcp add a --env", "has no value"),
            ("code --add-mcp '{]'", "the line: 1:2"),
            ("claude mcp add a https://a\n$ claude mcp add b -- npx", "2 commands are in it"),
        ] {
            let refusal = read(line).unwrap_or_else(|| panic!("{line}")).expect_err(line);
            assert!(refusal.contains(reason), "{line}: {refusal}");
        }
        for text in ["", "a: b", "{\"a\": 1}", "model = \"x\"", "[mcp_servers.a]"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}

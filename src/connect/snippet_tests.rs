//! Texts in the formats of clients.

use super::*;
use crate::connect::clients::{CLIENTS, Reference};
use crate::connect::clients::{Client, Http};
use crate::connect::document::Edit;
use crate::connect::document::{ServersPlace, Syntax};
use crate::connect::reader::OWN;
use crate::connect::registry;
use crate::connect::tests::gateway;

const PLACE: ServersPlace = ServersPlace { format: Syntax::Yaml, key: OWN };

/// The servers that `text` becomes in the configuration file.
fn entries(text: &str, name: Option<&str>) -> Result<Vec<(String, Json)>, String> {
    let added = registry::add("", &read("snippet", text, name)?, &[])?;
    assert!(added.refused.is_empty(), "{text}\n{:?}", added.refused);
    let root = PLACE.parse(&added.after)?;
    Ok(PLACE.entries(&root).into_iter().map(|(name, entry)| (name, entry.clone())).collect())
}

fn object(members: &[(&str, Json)]) -> Json {
    Json::Object(members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn text(text: &str) -> Json {
    Json::Text(text.to_owned())
}

fn member_of<'j>(value: &'j Json, name: &str) -> Option<&'j Json> {
    if let Json::Object(members) = value { member(members, name) } else { None }
}

/// The servers of the pages below `docs/servers`, as they are written there.
fn of_pages() -> Vec<(String, Json)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/servers");
    let pages = std::fs::read_dir(folder).expect("the pages").map(|page| page.expect("a page").path());
    let blocks = pages.flat_map(|page| {
        let page = std::fs::read_to_string(page).expect("text");
        let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        blocks.map(str::to_owned).collect::<Vec<_>>()
    });
    blocks
        .flat_map(|block| {
            let root = PLACE.parse(&block).expect("YAML");
            let servers = PLACE.entries(&root).into_iter().map(|(name, entry)| (name, entry.clone()));
            servers.collect::<Vec<_>>()
        })
        .collect()
}

fn without_timeout((name, entry): (String, Json)) -> (String, Json) {
    let Json::Object(mut members) = entry else { panic!("an object") };
    members.retain(|(member, _)| member != "timeout");
    (name, Json::Object(members))
}

/// The part of a server that every client can express.
fn plain(entry: &Json) -> Json {
    let mut members: Vec<(&str, Json)> = Vec::new();
    for key in ["command", "url", "args", "env"] {
        members.extend(member_of(entry, key).map(|value| (key, value.clone())));
    }
    let mut headers = match member_of(entry, "headers") {
        Some(Json::Object(headers)) => headers.clone(),
        _ => Members::new(),
    };
    if let Some(Json::Text(token)) = member_of(entry, "auth").and_then(|auth| member_of(auth, "bearer")) {
        headers.push(("Authorization".to_owned(), text(&format!("Bearer {token}"))));
    }
    if !headers.is_empty() {
        members.push(("headers", Json::Object(headers)));
    }
    object(&members)
}

/// Returns `value` with the references of `client`.
fn in_words_of(client: &Client, value: &Json) -> Json {
    let Reference::Between(before, after) = client.reference else { return value.clone() };
    match value {
        Json::Text(text) => {
            let mut parts = text.split("${");
            let first = parts.next().unwrap_or_default().to_owned();
            Json::Text(parts.fold(first, |text, part| match part.split_once('}') {
                Some((name, rest)) if !name.contains(':') => format!("{text}{before}{name}{after}{rest}"),
                _ => format!("{text}${{{part}"),
            }))
        }
        Json::List(items) => Json::List(items.iter().map(|item| in_words_of(client, item)).collect()),
        Json::Object(members) => Json::Object(
            members.iter().map(|(name, value)| (name.clone(), in_words_of(client, value))).collect(),
        ),
        other => other.clone(),
    }
}

/// Returns the entry of a server in the file of `client`, unless it has none for a URL.
fn entry_of(client: &Client, name: &str, plain: &Json) -> Option<Json> {
    let gateway = gateway();
    let value = |key: &str| member_of(plain, key).map(|value| in_words_of(client, value));
    let Some(url) = value("url") else {
        let mut entry = gateway.constants(client.stdio.before, name);
        let (command, args) = (value("command").expect("a program"), value("args"));
        match (client.stdio.args, args) {
            (None, Some(Json::List(args))) => {
                let all = std::iter::once(command).chain(args).collect();
                entry.push((client.stdio.command.to_owned(), Json::List(all)));
            }
            (key, args) => {
                entry.push((client.stdio.command.to_owned(), command));
                entry.extend(key.zip(args).map(|(key, args)| (key.to_owned(), args)));
            }
        }
        let env = match client.id {
            "goose" => "envs",
            "opencode" | "kilo" => "environment",
            _ => "env",
        };
        entry.extend(value("env").map(|value| (env.to_owned(), value)));
        entry.extend(gateway.constants(client.stdio.after, name));
        return Some(Json::Object(entry));
    };
    let Http { before, url: key, headers: path, after } = client.http?;
    let mut entry = gateway.constants(before, name);
    entry.push((key.to_owned(), url));
    let mut headers = value("headers");
    if let (Reference::Members(_), Some(Json::Object(all))) = (client.reference, &mut headers) {
        let bearer = all.iter().position(|(header, _)| header == "Authorization").map(|at| all.remove(at).1);
        let name = bearer.as_ref().and_then(Json::text).and_then(|text| text.strip_prefix("Bearer ${"));
        let member = if client.id == "pi" { "bearerTokenEnv" } else { "bearer_token_env_var" };
        let name = name.map(|name| (member.to_owned(), text(name.trim_end_matches('}'))));
        entry.extend(
            headers.filter(|headers| *headers != object(&[])).map(|headers| (path[0].to_owned(), headers)),
        );
        entry.extend(name);
    } else if let (Some(headers), Some((first, rest))) = (headers, path.split_first()) {
        let nested = rest.iter().rev().fold(headers, |value, key| object(&[(*key, value)]));
        entry.push(((*first).to_owned(), nested));
    }
    entry.extend(gateway.constants(after, name));
    Some(Json::Object(entry))
}

#[test]
fn every_server_of_the_pages_is_the_same_entry_in_the_format_of_every_client() {
    let (servers, mut count) = (of_pages(), 0);
    assert!(servers.len() >= 20, "{} servers", servers.len());
    for (name, entry) in &servers {
        let own = registry::as_is(vec![(name.clone(), entry.clone())]);
        assert_eq!(entries(&own, None), Ok(vec![(name.clone(), entry.clone())]), "{own}");
        let expected = plain(entry);
        for client in CLIENTS {
            let Some(theirs) = entry_of(client, name, &expected) else { continue };
            let edit = Edit { name, entry: &theirs, remove: &[] };
            let snippet = client.place().apply("", &edit).expect("a file");
            // Goose writes a timeout into every entry.
            let found = entries(&snippet, None).map(|found| found.into_iter().map(without_timeout).collect());
            assert_eq!(found, Ok(vec![(name.clone(), expected.clone())]), "{}:\n{snippet}", client.id);
            count += 1;
        }
    }
    assert!(count > 20 * 25, "{count} snippets");
}

#[test]
fn the_places_of_servers_in_a_text_are_found() {
    let files = object(&[("command", text("npx")), ("args", Json::List(vec![text("-y"), text("files")]))]);
    let expected = vec![("files".to_owned(), files)];
    let json = r#"{"command": "npx", "args": ["-y", "files"]}"#;
    for (snippet, name) in [
        (format!(r#"{{"mcpServers": {{"files": {json}}}}}"#), None),
        (format!(r#"{{"servers": {{"files": {json}}}, "inputs": []}}"#), None),
        (format!(r#"{{"mcp": {{"servers": {{"files": {json}}}}}}}"#), None),
        (format!(r#"{{"mcp.servers": {{"files": {json}}}}}"#), None),
        (format!(r#"{{"amp.mcpServers": {{"files": {json}}}}}"#), None),
        (format!(r#"{{"files": {json}}}"#), None),
        (format!("// for Cursor\n\"files\": {json},\n"), None),
        (json.to_owned(), Some("files")),
        (format!("```json\n{{\"mcpServers\": {{\"other\": {json}}}}}\n```"), Some("files")),
        (format!(r#"{{"mcpServers": {{"other": {{"url": "https://a"}}, "files": {json}}}}}"#), Some("files")),
        ("files:\n  command: npx\n  args: [-y, files]\n".to_owned(), None),
        ("[mcp_servers.files]\ncommand = \"npx\"\nargs = [\"-y\", \"files\"]\n".to_owned(), None),
    ] {
        assert_eq!(entries(&snippet, name), Ok(expected.clone()), "{snippet}");
    }
}

#[test]
fn a_text_without_servers_says_what_was_expected() {
    for (snippet, name, reason) in [
        ("", None, "it is empty"),
        ("{\"a\": 1}", None, "no servers were found in it"),
        (r#"{"command": "npx"}"#, None, "NAME on the command line"),
        ("{\"mcpServers\": {]", None, "this is not valid JSON"),
        ("[mcp_servers.x\n", None, "this is not valid TOML"),
        (
            r#"{"mcpServers": {"a": {"url": "u"}, "b": {"url": "u"}}}"#,
            Some("c"),
            "no server `c`, but `a`, `b`",
        ),
    ] {
        let error = read("snippet", snippet, name).expect_err(snippet);
        assert!(error.contains(reason), "{snippet}: {error}");
    }
}

//! `docs/clients/` has a page for each client; `UPDATE_GOLDEN=1` renews the part that is made from the table.
//!
//! Invariant: text below the generated part is written by hand, and a renewal keeps it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::clients::{Base, CLIENTS, Client, Reference, System, UserFile};
use super::document::{Edit, Syntax};
use super::tests::gateway;
use super::{Gateway, Json};

const BEGIN: &str = "<!-- Made from src/connect/clients/rows.rs. Renew it with UPDATE_GOLDEN=1. -->";
const END: &str = "<!-- End of the generated part. -->";

const INDEX: &str = "# Clients

One page for each MCP client that `switchyard connect` knows: the file, the entry and the limits. The command is explained
in [Connect clients](../connect.md). For any other client, `switchyard connect json` prints an entry to paste.

| client | command | connects over | confirmed by its documentation |
|---|---|---|---|
";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/clients")
}

fn path_of(file: &UserFile, system: System) -> String {
    let folder = match (file.base, system) {
        (Base::Home, _) => "~",
        (Base::Config, _) | (Base::Application, System::Linux) => "~/.config",
        (Base::Data, System::Linux) => "~/.local/share",
        (_, System::MacOs) => "~/Library/Application Support",
        (_, System::Windows) => "%APPDATA%",
    };
    format!("`{folder}/{}`", file.path)
}

fn files(client: &Client) -> String {
    let mut rows = String::new();
    for (system, name) in [(System::Linux, "Linux"), (System::MacOs, "macOS"), (System::Windows, "Windows")] {
        let files = client.user.iter().filter(|file| file.systems.contains(&system));
        let paths: Vec<String> = files.map(|file| path_of(file, system)).collect();
        let paths = if paths.is_empty() { "none".to_owned() } else { paths.join(" or ") };
        writeln!(rows, "| file on {name} | {paths} |").expect("a string");
    }
    for (variable, path) in client.user.iter().filter_map(|file| file.variable) {
        writeln!(rows, "| file if the variable is set | `${variable}/{path}` |").expect("a string");
    }
    if let Some(path) = client.project {
        writeln!(rows, "| file of a project | `{path}`, by `--scope project` |").expect("a string");
    }
    rows
}

fn format_of(format: Syntax) -> (&'static str, &'static str) {
    match format {
        Syntax::Json => ("JSON", "json"),
        Syntax::Toml => ("TOML", "toml"),
        Syntax::Yaml => ("YAML", "yaml"),
        Syntax::YamlList => ("YAML, a list", "yaml"),
    }
}

fn transport(client: &Client) -> &'static str {
    if client.http.is_some() { "Streamable HTTP" } else { "stdio" }
}

fn facts(client: &Client) -> String {
    let Client { max_name, name_marks, source, checked, .. } = client;
    let marks: Vec<String> = name_marks.chars().map(|mark| format!("`{mark}`")).collect();
    let state = if client.verified { "" } else { ". The page does not confirm every row: check the file" };
    format!(
        "| | |\n|---|---|\n{}| format | {} |\n| key | `{}` |\n| connects over | {} |\n\
         | name of an entry | at most {max_name} letters, digits, {} |\n| source | [its documentation]({source}), read \
         on {checked}{state} |\n\n",
        files(client),
        format_of(client.format).0,
        client.key.join("."),
        transport(client),
        marks.join(" "),
    )
}

/// The file that `connect` makes where there is none.
fn snippet(client: &Client, key_variable: Option<&str>) -> String {
    let example = Gateway {
        key_variable: key_variable.map(str::to_owned),
        program: "/usr/local/bin/switchyard".into(),
        config: "/home/me/mcp_servers.yaml".into(),
        ..gateway()
    };
    let (name, entry): (String, Json) = example.entry(client).expect("an entry");
    let edit = Edit { name: &name, entry: &entry, remove: &[] };
    let text = client.place().apply("", &edit).expect("a file");
    let language = format_of(client.format).1;
    let mark = if language == "yaml" {
        format!("<!-- not run: a file of {} -->\n\n", client.name)
    } else {
        String::new()
    };
    format!("{mark}```{language}\n{}\n```\n\n", text.trim_end())
}

fn generated(client: &Client) -> String {
    let Client { id, name, note, .. } = client;
    let mut text = format!(
        "{BEGIN}\n\n# Connect {name}\n\nOne command writes the entry, after it showed the change:\n\n```sh\nswitchyard \
         connect {id}\n```\n\n{}",
        facts(client)
    );
    if !note.is_empty() {
        write!(text, "{note}\n\n").expect("a string");
    }
    text += "## The entry by hand\n\n`connect` writes this into a new file:\n\n";
    text += &snippet(client, None);
    match client.reference {
        Reference::Unknown if client.http.is_some() => {
            text += "Its documentation names no way to read a variable in this file, so `--key-env` is refused.\n\n";
        }
        _ if client.http.is_none() => {
            text += "The client starts `switchyard stdio` itself, so no gateway has to run, and no key is needed.\n\n";
        }
        _ => {
            write!(
                text,
                "With `--key-env SWITCHYARD_KEY` the client sends the key in that variable:\n\n{}",
                snippet(client, Some("SWITCHYARD_KEY"))
            )
            .expect("a string");
        }
    }
    if client.project.is_some() {
        write!(text, "For one project only:\n\n```sh\nswitchyard connect {id} --scope project\n```\n\n")
            .expect("a string");
    }
    write!(text, "Restore the file as it was:\n\n```sh\nswitchyard connect {id} --undo\n```\n\n{END}\n")
        .expect("a string");
    text
}

/// Compares the generated part of a page; returns whether it is the committed one.
fn is_current(path: &Path, expected: &str) -> bool {
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let by_hand = committed.split_once(&format!("{END}\n")).map(|(_, text)| text).unwrap_or_default();
    let page = format!("{expected}{by_hand}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &page).expect("it can be written");
        return true;
    }
    committed == page
}

#[test]
fn every_client_has_a_page_that_says_what_connect_writes() {
    let old = CLIENTS
        .iter()
        .filter(|client| !is_current(&folder().join(format!("{}.md", client.id)), &generated(client)));
    let old: Vec<&str> = old.map(|client| client.id).collect();
    assert!(old.is_empty(), "docs/clients: {old:?} are not what the table says: run with UPDATE_GOLDEN=1");
}

#[test]
fn the_page_of_clients_lists_every_client() {
    let mut page = format!("{BEGIN}\n\n{INDEX}");
    for client in CLIENTS {
        let Client { id, name, verified, .. } = client;
        let verified = if *verified { "yes" } else { "not completely" };
        writeln!(
            page,
            "| [{name}]({id}.md) | `switchyard connect {id}` | {} | {verified} |",
            transport(client)
        )
        .expect("a string");
    }
    write!(page, "\n{END}\n").expect("a string");
    assert!(
        is_current(&folder().join("README.md"), &page),
        "docs/clients/README.md: run with UPDATE_GOLDEN=1"
    );
}

#[test]
fn the_readme_counts_the_clients_that_are_not_verified() {
    let readme = folder().join("../../README.md");
    let text = std::fs::read_to_string(readme).expect("it is committed");
    let unverified = CLIENTS.iter().filter(|client| !client.verified).count();
    let all = CLIENTS.len();
    let sentence = format!("the file of {all} clients. {unverified} of the {all} are not verified:");
    assert!(text.contains(&sentence), "README.md: {sentence}");
}

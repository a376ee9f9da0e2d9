//! `docs/connect.md` shows the table of clients; `UPDATE_GOLDEN=1` renews it.

use std::fmt::Write as _;

use super::clients::{Base, CLIENTS, Client, EVERYWHERE, Reference, System, UserFile};
use super::document::Syntax;

const BEGIN: &str =
    "<!-- The table is made from src/connect/clients/rows.rs. Renew it with UPDATE_GOLDEN=1. -->\n\n";
const END: &str = "\n<!-- End of the table. -->";

fn table() -> String {
    let mut table =
        "| client | files | format and place | entry | key by `--key-env` | source |\n".to_owned();
    table.push_str("|---|---|---|---|---|---|\n");
    for client in CLIENTS {
        let files: Vec<_> =
            client.user.iter().map(user_file).chain(client.project.map(project_file)).collect();
        let unsure = if client.verified { "" } else { ", not verified" };
        let _ = writeln!(
            table,
            "| `{}` {} | {} | {}, `{}` | {} | {} | [{}]({}){unsure} |",
            client.id,
            client.name,
            files.join("; "),
            format_of(client.format),
            client.key.join("."),
            entry_of(client),
            key_of(client),
            client.checked,
            client.source,
        );
    }
    table
}

fn user_file(file: &UserFile) -> String {
    let folder = match file.base {
        Base::Home => "~",
        Base::Config => "CONFIG",
        Base::Application => "APPLICATIONS",
        Base::Data => "DATA",
    };
    let names = file.systems.iter().map(|system| match system {
        System::Linux => "Linux",
        System::MacOs => "macOS",
        System::Windows => "Windows",
    });
    let systems = if file.systems == EVERYWHERE {
        String::new()
    } else {
        format!(" ({})", names.collect::<Vec<_>>().join(", "))
    };
    let variable = file.variable.map(|(name, path)| format!(" or `${name}/{path}`")).unwrap_or_default();
    format!("`{folder}/{}`{variable}{systems}", file.path)
}

fn project_file(path: &str) -> String {
    format!("project `{path}`")
}

fn format_of(format: Syntax) -> &'static str {
    match format {
        Syntax::Json => "JSON",
        Syntax::Toml => "TOML",
        Syntax::Yaml => "YAML",
        Syntax::YamlList => "YAML list",
    }
}

fn entry_of(client: &Client) -> String {
    let limits = format!("names of {} letters, digits, `{}`", client.max_name, client.name_marks);
    match &client.http {
        Some(http) => format!("`{}`; {limits}", http.url),
        None => format!("program; {limits}"),
    }
}

fn key_of(client: &Client) -> String {
    match (&client.http, client.reference) {
        (Some(_), Reference::Between(before, after)) => format!("`{before}NAME{after}`"),
        (Some(_), Reference::Members(members)) => {
            format!("`{}`", members.last().map(|(name, _)| *name).unwrap_or_default())
        }
        _ => "no".to_owned(),
    }
}

#[test]
fn the_committed_page_shows_every_row() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/connect.md");
    let page = std::fs::read_to_string(path).expect("it is committed");
    let (before, rest) = page.split_once(BEGIN).expect("the beginning of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let expected = format!("{before}{BEGIN}{}{END}{after}", table());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &expected).expect("it can be written");
        return;
    }
    assert!(page == expected, "docs/connect.md is not what the table says: run with UPDATE_GOLDEN=1");
}

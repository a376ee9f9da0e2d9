//! The tables of settings on pages are made of the declarations of the settings.
//!
//! A page decides which of its tables has a setting, and in which order: a row keeps its place. A setting without a row
//! gets one after the setting that is declared before it. `UPDATE_GOLDEN=1` writes the rows.

use std::collections::{BTreeMap, BTreeSet};

use settings::Expected;

use super::schema::Tree;
use crate::config::Config;

/// Where settings below a path have their rows: the page, and the titles of the sections with tables. The first row that
/// fits counts.
const TABLES: [(&str, &str, &[&str]); 17] = [
    ("mcp_servers.*.auth.oauth.", "logins.md", &["Settings"]),
    ("mcp_servers.*.chroma.embedding.", "embeddings.md", &["Settings"]),
    ("mcp_servers.*.handbook.embedding.", "embeddings.md", &["Settings"]),
    ("mcp_servers.*.handbook.chroma.", "handbook.md", &["Keep the vectors in Chroma"]),
    ("mcp_servers.*.", "configuration.md", &OF_SERVERS),
    ("views.*.tools.*.", "views.md", &["Changes of a tool"]),
    ("views.*.", "views.md", &["Settings"]),
    ("limits.*.", "operate/limits.md", &["Settings of a limit"]),
    ("cache.", "configuration.md", &["Cache"]),
    ("server.api_keys.[].", "security/keys.md", &["Make an API key"]),
    ("server.jwt.introspection.", "security/tokens.md", &["Opaque tokens: introspection"]),
    ("server.jwt.", "security/tokens.md", &["Accept JSON Web Tokens (JWT)"]),
    ("server.tls.", "security/listener.md", &["TLS"]),
    ("server.authorization_server.clients.[].", "security/authorization-server.md", &["Clients of the file"]),
    ("server.authorization_server.", "security/authorization-server.md", &["Settings"]),
    ("server.", "configuration.md", &["Listener, limits and log"]),
    ("", "configuration.md", &["Global fields"]),
];
const OF_SERVERS: [&str; 10] = [
    "How a server is reached",
    "How a server is called",
    "Which tools are offered",
    "What a server may take",
    "Who shares a connection",
    "Which protocol era is spoken",
    "The handbook",
    "R2R",
    "RAG techniques",
    "Chroma",
];

/// The settings that readers declare, with what they expect.
struct Declared {
    tree: Tree,
    /// The paths in the order of the declarations.
    paths: Vec<String>,
}

/// A line of a page.
struct Line {
    text: String,
    /// The settings of a row, and the names of its table's columns.
    row: Option<(Vec<String>, Vec<String>)>,
}

impl Declared {
    fn read() -> Self {
        let recorded = Config::recorded();
        let mut paths: Vec<String> = Vec::new();
        for described in &recorded.described {
            if !paths.contains(&described.path) {
                paths.push(described.path.clone());
            }
        }
        Self { tree: Tree::of(&recorded), paths }
    }

    fn setting(&self, path: &str) -> &Tree {
        path.split('.').fold(&self.tree, |tree, name| &tree.parts[name])
    }

    /// The settings in the section `title` of `page` that are called `name` there.
    fn called(&self, name: &str, page: &str, title: &str) -> Vec<String> {
        let tables = TABLES.iter().filter(|(_, of, titles)| *of == page && titles.contains(&title));
        let paths = tables.map(|(base, ..)| format!("{base}{name}"));
        paths.filter(|path| self.paths.contains(path)).collect()
    }

    /// The lines of a page, with the rows of its settings as they are declared.
    fn page(&self, page: &str) -> Vec<Line> {
        let text = std::fs::read_to_string(super::file("docs").join(page)).expect("text");
        let (mut lines, mut title, mut columns, mut is_code) = (Vec::new(), "", Vec::new(), false);
        let all: Vec<&str> = text.lines().collect();
        for (at, line) in all.iter().enumerate() {
            is_code ^= line.starts_with("```");
            if let Some(found) = line.strip_prefix('#').filter(|_| !is_code) {
                title = found.trim_start_matches('#').trim();
            }
            if all.get(at + 1).is_some_and(|next| next.starts_with("|---")) {
                columns = cells(line);
            }
            let names = if line.starts_with("| `") { cells(line).swap_remove(0) } else { String::new() };
            let names = names.split('`').skip(1).step_by(2);
            let settings: Vec<_> = names
                .map(|name| self.called(name, page, title))
                .filter(|settings| !settings.is_empty())
                .collect();
            if settings.is_empty() {
                lines.push(Line { text: (*line).to_owned(), row: None });
            }
            lines.extend(settings.into_iter().map(|settings| self.row(settings, &columns)));
        }
        lines
    }

    fn row(&self, settings: Vec<String>, columns: &[String]) -> Line {
        let setting = self.setting(&settings[0]);
        let (meaning, default) = setting.described.clone().unwrap_or_default();
        let base = TABLES.iter().find(|(base, ..)| settings[0].starts_with(base)).expect("a table").0;
        let cell = |column: &String| match column.as_str() {
            "type" => kind(setting),
            "default" => default.clone(),
            "meaning" => meaning.clone(),
            _ => format!("`{}`", &settings[0][base.len()..]),
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        Line { text: format!("| {} |", cells.join(" | ")), row: Some((settings, columns.to_vec())) }
    }

    /// Whether a setting has settings of its own, so that it needs no row.
    fn is_section(&self, path: &str) -> bool {
        let below = format!("{path}.");
        self.paths.iter().any(|other| other.starts_with(&below))
    }
}

fn cells(line: &str) -> Vec<String> {
    line.trim_matches(['|', ' ']).split(" | ").map(|cell| cell.trim().to_owned()).collect()
}

/// The type of a setting for a page.
fn kind(setting: &Tree) -> String {
    let of = |name: &str| setting.parts.get(name).map_or_else(|| "text".to_owned(), kind);
    let items = || match of("[]").as_str() {
        "mapping" => "list of mappings".to_owned(),
        words if words.contains('`') => format!("list of {words}"),
        item => format!("list of {item}s"),
    };
    let mut forms: Vec<String> = Vec::new();
    for expected in &setting.expected {
        let form = match expected {
            Expected::Text => "text".to_owned(),
            Expected::Path => "path".to_owned(),
            Expected::Url => "URL".to_owned(),
            Expected::Boolean => "`true` or `false`".to_owned(),
            Expected::Integer(least, most) => format!("{least} to {most}"),
            Expected::Seconds(least, most) => format!("seconds, {least} to {most}"),
            Expected::Words(words) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
            }
            Expected::NumberOrText => "number or text".to_owned(),
            Expected::List => items(),
            Expected::OneOrMore => format!("text or {}", items()),
            Expected::Mapping if setting.parts.contains_key("*") => match of("*").as_str() {
                words if words.contains('`') => format!("mapping to {words}"),
                value => format!("mapping of {value}s"),
            },
            Expected::Mapping => "mapping".to_owned(),
            Expected::Any => "value".to_owned(),
            Expected::Fields(_) | Expected::Nothing => continue,
        };
        if !forms.iter().any(|known| known == &form || known.ends_with(&format!("or {form}"))) {
            forms.push(form);
        }
    }
    match forms.pop() {
        Some(last) if !forms.is_empty() => format!("{} or {last}", forms.join(", ")),
        last => last.unwrap_or_default(),
    }
}

#[test]
fn tables_of_settings_on_pages_are_made_of_the_declarations() {
    let declared = Declared::read();
    let pages: BTreeSet<&str> = TABLES.iter().map(|(_, page, _)| *page).collect();
    let mut pages: BTreeMap<&str, Vec<Line>> =
        pages.into_iter().map(|page| (page, declared.page(page))).collect();
    let mut before: BTreeMap<&str, &String> = BTreeMap::new();
    for path in &declared.paths {
        let (base, page, _) = TABLES.iter().find(|(base, ..)| path.starts_with(base)).expect("a table");
        let lines = pages.get_mut(page).expect("it was read");
        let row_of = |lines: &[Line], path: &String| {
            lines
                .iter()
                .position(|line| line.row.as_ref().is_some_and(|(settings, _)| settings.contains(path)))
        };
        if row_of(lines, path).is_none() {
            if declared.is_section(path) {
                continue;
            }
            let previous = before.get(base).and_then(|previous| row_of(lines, previous));
            let at = previous.unwrap_or_else(|| panic!("no row of {page} is before {path}"));
            let columns = lines[at].row.as_ref().expect("a row").1.clone();
            lines.insert(at + 1, declared.row(vec![path.clone()], &columns));
        }
        before.insert(base, path);
    }
    for (page, lines) in pages {
        let text: String = lines.iter().flat_map(|line| [line.text.as_str(), "\n"]).collect();
        super::compare(&format!("docs/{page}"), &text);
    }
}

//! `docs/reference/mcp_servers.schema.json` is what the readers of the configuration file accept.
//!
//! The readers read every example of the repository and record what they expect of each setting ([`settings::Record`]).
//! Every key that a reader knows must be in an example, and on a page. The schema shows the texts of the tables of pages.
//! A new setting without an example or a text makes this test fail.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use settings::{Expected, Record};

use super::config_blocks::files;
use super::environment_of;
use crate::config::Config;

/// The committed schema.
const PATH: &str = "docs/reference/mcp_servers.schema.json";
const DIALECT: &str = "http://json-schema.org/draft-07/schema#";

/// Settings of models inside the gateway, which no program reads without the feature `local-embeddings`.
const OF_MODELS: [&str; 2] =
    ["mcp_servers.*.chroma.embedding.model_dir", "mcp_servers.*.handbook.embedding.model_dir"];

/// An example with a file that would have to be there.
const KEY_FILE: &str = "\
server:
  auth_mode: jwt
  jwt:
    {issuer: i, audience: a, algorithm: RS256, public_key: key.pem, leeway: 5s, role_claim: role}
mcp_servers: {}
";

/// One setting, as the readers know it.
#[derive(Debug, Default)]
struct Tree {
    /// The expected values.
    expected: Vec<Expected>,
    /// The keys that a reader knows.
    fields: BTreeMap<String, Tree>,
    /// The values of a mapping with any keys.
    values: Option<Box<Tree>>,
    /// The elements of a list.
    items: Option<Box<Tree>>,
}

/// A step from a value to one of its parts.
#[derive(Debug, PartialEq)]
enum Step<'p> {
    Key(&'p str),
    Item,
}

/// Splits the path of a setting, and returns each step with the path of the value it begins at.
fn steps(path: &str) -> Vec<(&str, Step<'_>)> {
    let (mut steps, mut at) = (Vec::new(), 0);
    while at < path.len() {
        let rest = &path[at..];
        if rest.starts_with('[') {
            steps.push((&path[..at], Step::Item));
            at += rest.find(']').expect("an end") + 1;
            continue;
        }
        let begin = at + usize::from(rest.starts_with('.'));
        let rest = &path[begin..];
        let length = match rest.strip_prefix('"') {
            Some(quoted) => quoted.find('"').expect("an end") + 2,
            None => rest.find(['.', '[']).unwrap_or(rest.len()),
        };
        steps.push((&path[..at], Step::Key(&rest[..length])));
        at = begin + length;
    }
    steps
}

impl Tree {
    /// Adds what the readers of one file asked for.
    fn add(&mut self, records: &[Record]) {
        let is_fields = |record: &&Record| matches!(record.expected, Expected::Fields(_));
        let with_fields: BTreeSet<&str> =
            records.iter().filter(is_fields).map(|record| &*record.path).collect();
        for record in records {
            let mut tree = &mut *self;
            for (parent, step) in steps(&record.path) {
                tree = match step {
                    Step::Key(key) if with_fields.contains(parent) => {
                        tree.fields.entry(key.to_owned()).or_default()
                    }
                    Step::Key(_) => tree.values.get_or_insert_default(),
                    Step::Item => tree.items.get_or_insert_default(),
                };
            }
            match &record.expected {
                Expected::Fields(names) => {
                    for name in names {
                        tree.fields.entry((*name).to_owned()).or_default();
                    }
                }
                expected if tree.expected.contains(expected) => {}
                expected => tree.expected.push(expected.clone()),
            }
        }
    }

    /// Returns the setting at `path`, in which `*` is any key.
    fn at(&mut self, path: &str) -> &mut Self {
        path.split('.').fold(self, |tree, key| match key {
            "*" => tree.values.get_or_insert_default(),
            key => tree.fields.get_mut(key).expect("a reader knows it"),
        })
    }

    /// Calls `visit` with the path of every setting.
    fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, &Self)) {
        for (name, tree) in &self.fields {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            visit(&path, tree);
            tree.visit(&path, visit);
        }
        for (name, tree) in [("*", &self.values), ("[]", &self.items)] {
            if let Some(tree) = tree {
                tree.visit(&format!("{path}.{name}"), visit);
            }
        }
    }

    /// The JSON Schema of this setting at `path`.
    fn schema(&self, path: &str, texts: &Texts) -> Value {
        let mut forms: Vec<Value> = Vec::new();
        let mut add = |form: Value| {
            if !forms.contains(&form) {
                forms.push(form);
            }
        };
        for expected in &self.expected {
            self.forms(expected, path, texts).into_iter().for_each(&mut add);
        }
        let mut schema = match forms.len() {
            1 => forms.remove(0),
            _ => json!({"anyOf": forms}),
        };
        if let (Some(text), Value::Object(members)) = (texts.of(path), &mut schema) {
            members.insert("description".to_owned(), text.clone().into());
        }
        schema
    }

    fn forms(&self, expected: &Expected, path: &str, texts: &Texts) -> Vec<Value> {
        let reference = || json!({"$ref": "#/definitions/reference"});
        let number = |text: &String| text.parse::<u64>().expect("a number");
        let items =
            || self.items.as_ref().map_or(json!({}), |items| items.schema(&format!("{path}.[]"), texts));
        match expected {
            Expected::Text => vec![json!({"type": "string"})],
            Expected::Boolean => vec![json!({"$ref": "#/definitions/boolean"})],
            Expected::Integer(least, most) => {
                vec![
                    json!({"type": "integer", "minimum": number(least), "maximum": number(most)}),
                    reference(),
                ]
            }
            Expected::Seconds(least, most) => {
                vec![
                    json!({"type": "number", "minimum": least, "maximum": most}),
                    json!({"$ref": "#/definitions/time"}),
                ]
            }
            Expected::Words(words) => vec![json!({"enum": words}), reference()],
            Expected::NumberOrText => vec![json!({"type": ["integer", "string"]})],
            Expected::List | Expected::OneOrMore => vec![json!({"type": "array", "items": items()})],
            Expected::Nothing => vec![json!({"type": "null"})],
            Expected::Fields(_) => Vec::new(),
            Expected::Mapping if self.fields.is_empty() => {
                let values =
                    self.values.as_ref().map_or(json!({}), |tree| tree.schema(&format!("{path}.*"), texts));
                vec![json!({"type": ["object", "null"], "additionalProperties": values})]
            }
            Expected::Mapping => {
                let below =
                    |name: &String| if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let fields =
                    self.fields.iter().map(|(name, tree)| (name.clone(), tree.schema(&below(name), texts)));
                let fields: Map<String, Value> = fields.collect();
                vec![json!({"type": ["object", "null"], "properties": fields, "additionalProperties": false})]
            }
        }
    }
}

/// The tables of pages: heading of the section, name of the setting, and its text.
struct Texts(Vec<(String, String, String)>);

/// The page and the heading of the tables with the settings below a path.
const TABLES: [(&str, &str, &[&str]); 7] = [
    ("mcp_servers.*.auth.oauth.", "logins.md", &["Settings"]),
    ("mcp_servers.*.", "configuration.md", &OF_SERVERS),
    ("cache.", "configuration.md", &["Cache"]),
    ("server.jwt.", "security.md", &["Accept JSON Web Tokens (JWT)"]),
    ("server.tls.", "security.md", &["TLS"]),
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

impl Texts {
    fn read() -> Self {
        let pages: BTreeSet<&str> = TABLES.iter().map(|(_, page, _)| *page).collect();
        Self(pages.into_iter().flat_map(rows).collect())
    }

    /// The text of the setting at `path`.
    fn of(&self, path: &str) -> Option<&String> {
        let (base, page, headings) = TABLES.iter().find(|(base, ..)| path.starts_with(base))?;
        let is_heading =
            |heading: &str| headings.iter().any(|title| heading.strip_prefix(page) == Some(title));
        let name = &path[base.len()..];
        let found = self.0.iter().find(|(heading, row, _)| is_heading(heading) && row == name);
        found.map(|(_, _, text)| text)
    }
}

/// The rows of the tables of a page. The heading begins with the name of the page.
fn rows(page: &str) -> Vec<(String, String, String)> {
    let text = std::fs::read_to_string(super::file("docs").join(page)).expect("text");
    let (mut rows, mut heading, mut is_code) = (Vec::new(), String::new(), false);
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        if let Some(title) = line.strip_prefix('#').filter(|_| !is_code) {
            heading = format!("{page}{}", title.trim_start_matches('#').trim());
        }
        let cells: Vec<&str> = line.trim_end_matches([' ', '|']).split(" | ").collect();
        let ([names, .., meaning], true) = (cells.as_slice(), line.starts_with("| `")) else { continue };
        let plain = |text: &str| without_links(&text.replace('`', ""));
        let text = match cells.as_slice() {
            [_, kind, default, _] => {
                format!("{} ({}, default: {})", plain(meaning), plain(kind), plain(default))
            }
            _ => plain(meaning),
        };
        let names = names.split('`').skip(1).step_by(2);
        rows.extend(names.map(|name| (heading.clone(), name.to_owned(), text.clone())));
    }
    rows
}

/// Returns `text` with the titles of links in their place.
fn without_links(text: &str) -> String {
    let link = |text: &str| {
        let middle = text.find("](")?;
        let begin = text[..middle].rfind('[')?;
        let end = middle + text[middle..].find(')')?;
        Some(format!("{}{}{}", &text[..begin], &text[begin + 1..middle], &text[end + 1..]))
    };
    let mut text = text.to_owned();
    while let Some(shorter) = link(&text) {
        text = shorter;
    }
    text
}

fn tree() -> Tree {
    let mut tree = Tree::default();
    for (place, text) in files().into_iter().chain([("KEY_FILE".to_owned(), KEY_FILE.to_owned())]) {
        let path = super::file("docs/mcp_servers.yaml");
        let records = Config::records(&path, text.as_bytes(), &environment_of(&text));
        tree.add(&records.unwrap_or_else(|error| panic!("{place}: {error}")));
    }
    for path in OF_MODELS {
        let expected = Expected::Text;
        tree.at(path).expected.push(expected);
    }
    tree
}

#[test]
fn the_schema_is_what_the_readers_accept() {
    let (tree, texts) = (tree(), Texts::read());
    let mut schema = tree.schema("", &texts);
    let members = schema.as_object_mut().expect("an object");
    members.insert("$schema".into(), DIALECT.into());
    members.insert("title".into(), "The configuration file of Switchyard".into());
    let definitions = json!({
        "reference": {"type": "string", "pattern": "\\$", "description": "a reference such as ${NAME}"},
        "boolean": {"anyOf": [{"type": "boolean"}, {"enum": ["yes", "no", "on", "off"]}, {"$ref": "#/definitions/reference"}]},
        "time": {"type": "string", "pattern": "\\$|^ *[0-9.]+ *(ms|s|m|h|d) *$", "description": "a time such as 30s"},
    });
    members.insert("definitions".into(), definitions);
    super::compare(PATH, &format!("{schema:#}\n"));
}

#[test]
fn every_key_that_a_reader_knows_is_in_an_example_and_on_a_page() {
    let pages = ["configuration", "security", "logins", "chroma", "embeddings", "handbook", "r2r", "rag"];
    let page = |name| std::fs::read_to_string(super::file("docs").join(format!("{name}.md"))).expect("text");
    let pages: String = pages.into_iter().map(page).collect();
    let (mut untyped, mut unexplained) = (Vec::new(), Vec::new());
    tree().visit("", &mut |path, tree| {
        if tree.expected.is_empty() {
            untyped.push(path.to_owned());
        }
        let name = path.rsplit('.').next().unwrap_or_default();
        let known = [("`", "`"), (".", "`"), ("`", "."), ("`", ":"), (": ", "`")];
        let known = known.map(|(before, after)| format!("{before}{name}{after}"));
        if !known.iter().any(|written| pages.contains(written)) {
            unexplained.push(path.to_owned());
        }
    });
    assert!(untyped.is_empty(), "no example has these settings: {untyped:#?}");
    assert!(unexplained.is_empty(), "no page explains these settings: {unexplained:#?}");
}

//! The clients of the official SDKs accept every list, whatever the definitions of servers are.
//!
//! The definitions are random: each is a valid one of which some members are replaced by anything. A failure prints the
//! seed (`SWITCHYARD_SEED`).

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::gateway;
use crate::support::listing::{self, Listed};
use crate::support::{Registry, eventually, peers};
use testkit::served::Served;

/// Definitions of each kind that each of the two servers has: 10,000 together.
const COUNTS: [(&str, &str, usize); 4] = [
    ("tools/list", "tools", 3_000),
    ("resources/list", "resources", 700),
    ("resources/templates/list", "resourceTemplates", 600),
    ("prompts/list", "prompts", 700),
];
/// Stands for half of a surrogate pair, which no Rust string can have.
const HALF: &str = "@half@";

/// A small random generator (`SplitMix64`), so that a seed gives the same definitions everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).expect("below the limit")
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    fn scalar(&mut self) -> Value {
        self.of(&[
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(-1),
            json!(1.5),
            json!(9_007_199_254_740_993_i64),
            json!(""),
            json!("object"),
            json!("string"),
            json!("int"),
            json!("user"),
            json!("dark"),
            json!("required"),
            json!("2025-01-12T15:00:58Z"),
            json!("2025-01-12"),
            json!("#/$defs/a"),
            json!("#"),
            json!("https://example.com/s"),
            json!("(?<a>x)\\-"),
            json!("^[\\w-]+$"),
            json!(HALF),
            json!([]),
            json!({}),
            json!({"type": "int"}),
            json!(["object", "null"]),
            json!(["a", 5]),
            json!({"a": null}),
            json!({"type": "object", "required": true}),
        ])
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 2 } else { 4 }) {
            0 | 1 => self.scalar(),
            2 => (0..self.below(3)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let mut members = Map::new();
                for _ in 0..self.below(4) {
                    let names = [
                        "type",
                        "properties",
                        "required",
                        "items",
                        "enum",
                        "$ref",
                        "$schema",
                        "$defs",
                        "anyOf",
                        "not",
                        "pattern",
                        "nullable",
                        "minimum",
                        "src",
                        "sizes",
                        "theme",
                        "title",
                        "name",
                        "audience",
                        "priority",
                        "lastModified",
                        "readOnlyHint",
                        "taskSupport",
                        "description",
                        "a",
                        "id",
                        "format",
                    ];
                    members.insert(self.of(&names).to_owned(), self.value(depth - 1));
                }
                Value::Object(members)
            }
        }
    }

    /// Replaces or removes some members of `object`, at any depth, but not those in `kept`.
    fn spoil(&mut self, object: &mut Map<String, Value>, kept: &[&str]) {
        let names: Vec<String> =
            object.keys().filter(|name| !kept.contains(&name.as_str())).cloned().collect();
        for _ in 0..=self.below(3) {
            let name = self.of(&names);
            match (self.below(4), object.get_mut(&name)) {
                (0, _) => drop(object.remove(&name)),
                (1, Some(Value::Object(inner))) if !inner.is_empty() => self.spoil(inner, &[]),
                (2, Some(Value::Array(inner))) => inner.push(self.value(2)),
                _ => drop(object.insert(name, self.value(3))),
            }
        }
    }

    fn definition(&mut self, member: &str, server: &str, number: usize) -> Value {
        let icons = json!([{"src": "data:,", "mimeType": "image/png", "sizes": ["48x48"], "theme": "light"}]);
        let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": {"a": {"type": "string", "pattern": "^a"}, "b": {"$ref": "#/$defs/a"}, "c": true},
            "required": ["a"], "$defs": {"a": {"enum": [1]}}, "additionalProperties": false});
        let annotations =
            json!({"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"});
        let common = json!({"title": "t", "description": "d", "icons": icons, "_meta": {"a": 1}, "x": null});
        let own = match member {
            "tools" => {
                json!({"inputSchema": schema, "outputSchema": schema, "execution": {"taskSupport": "optional"},
                "annotations": {"title": "t", "readOnlyHint": true, "idempotentHint": true}})
            }
            "prompts" => {
                json!({"arguments": [{"name": "a", "title": "t", "description": "d", "required": true}]})
            }
            _ => json!({"mimeType": "text/plain", "size": 5, "annotations": annotations}),
        };
        let mut definition = common.as_object().expect("members").clone();
        definition.extend(own.as_object().expect("members").clone());
        let key = match member {
            "resources" => "uri",
            "resourceTemplates" => "uriTemplate",
            _ => "name",
        };
        definition.insert("name".to_owned(), json!(format!("{server}{number}")));
        definition.insert(key.to_owned(), json!(format!("{server}:{member}{number}")));
        let kept: &[&str] = if self.0.is_multiple_of(50) { &[] } else { &[key] };
        self.spoil(&mut definition, kept);
        Value::Object(definition)
    }
}

/// A server whose lists are random. The last item of each is valid.
fn server(name: &'static str, seed: u64) -> Served {
    let mut random = Random(seed);
    let lists = COUNTS.map(|(method, member, count)| {
        let mut items: Vec<Value> =
            (1..count).map(|number| random.definition(member, name, number)).collect();
        let good = format!("{name}:good-{member}");
        items
            .push(json!({"name": good, "uri": good, "uriTemplate": good, "inputSchema": {"type": "object"}}));
        (method, json!({member: items}).to_string().replace(HALF, "\\ud800"))
    });
    let capabilities = json!({"tools": {"listChanged": 1}, "resources": {}, "prompts": {}, "logging": null,
        "extensions": {"a/b": null}, "experimental": [], "completions": true});
    let answer = move |method: &str, _: &Value| {
        let found = lists.iter().find(|(listed, _)| *listed == method);
        found.map(|(_, text)| Listed::Result(text.clone()))
    };
    if name == "old" { listing::legacy(capabilities, answer) } else { listing::modern(capabilities, answer) }
}

#[tokio::test]
async fn clients_of_the_sdks_accept_ten_thousand_random_definitions() {
    let seed =
        std::env::var("SWITCHYARD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            u64::try_from(now.as_nanos() & u128::from(u64::MAX)).expect("64 bits")
        });
    eprintln!("SWITCHYARD_SEED={seed}");
    let (old, new) = (server("old", seed), server("new", seed ^ 1));
    let registry =
        Registry::new().http("old", &format!("{}/mcp", old.url())).http("new", &format!("{}/mcp", new.url()));
    let running = gateway(&registry).start().await;
    for server in ["old", "new"] {
        eventually("every list was read", async || {
            let listed = running.mcp_of(server).modern("prompts/list", json!({})).await.json();
            listed["result"]["prompts"][0].is_object().then_some(())
        })
        .await;
    }
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/peers/fixtures");
    let home = tempfile::tempdir().expect("a folder");
    let clients = [
        ("peer-node", "lists-ts1.mjs", "legacy"),
        ("peer-python", "lists.py", "auto"),
        ("peer-node", "lists-ts2.mjs", "legacy"),
        ("peer-node", "lists-ts2.mjs", "auto"),
        ("peer-python", "lists.py", "legacy"),
    ];
    // One server alone has the same definitions, so two clients are enough there.
    for (path, clients) in [("/mcp", &clients[..]), ("/mcp/old", &clients[..2]), ("/mcp/new", &clients[..2])]
    {
        for (interpreter, file, mode) in clients {
            let mut command = peers::command(interpreter, home.path());
            command.arg(fixtures.join(file)).arg(running.url(path)).arg(mode);
            let output = tokio::task::spawn_blocking(move || command.output().expect("it runs"))
                .await
                .expect("it ends");
            let (text, errors) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let end: String = errors.chars().take(4_000).collect();
            let counts: Value = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{file} {mode} {path}, seed {seed}: {error}: {text}\n{end}"));
            eprintln!("{path} {file} {mode}: {counts}");
            let servers = if path == "/mcp" { 2 } else { 1 };
            for (_, member, count) in COUNTS {
                let found =
                    counts[member].as_u64().and_then(|found| usize::try_from(found).ok()).expect("a count");
                assert!(found > servers * count / 2, "{file} {mode} {path} {member}: {found}, seed {seed}");
            }
        }
    }
}

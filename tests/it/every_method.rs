//! Fidelity of every method that reaches a server: a thousand generated objects each way, between
//! each pair of eras. They have unknown members, any order of members, deep nesting, `1e400`, 2^70
//! and nulls. Apart from the members that Switchyard owns, each object arrives byte for byte.

use json::Raw;

use crate::support::client::Session;
use crate::support::scripted::{Scripted, Server};
use crate::support::{Client, Gateway, Registry, eventually};

/// Objects of each method in each direction; four methods make a thousand.
const OBJECTS: usize = 250;
/// Members that Switchyard may add to a result for a client that needs them.
const ADDED: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// A method, with the required members of its parameters and results.
struct Method {
    name: &'static str,
    params: &'static [&'static str],
    result: &'static [&'static str],
}

const METHODS: [Method; 4] = [
    Method {
        name: "tools/call",
        params: &[r#""name":"t""#, r#""arguments":@"#],
        result: &[r#""content":[{"type":"text","text":"\u0061","x":#}]"#, r#""structuredContent":@"#],
    },
    Method {
        name: "prompts/get",
        params: &[r#""name":"p""#, r#""arguments":@"#],
        result: &[r#""messages":[{"role":"user","content":{"type":"text","text":"","x":#}}]"#],
    },
    Method {
        name: "resources/read",
        params: &[r#""uri":"memo:r""#],
        result: &[r#""contents":[{"uri":"memo:r","text":"","x":#}]"#],
    },
    Method {
        name: "completion/complete",
        params: &[r#""ref":{"x":#,"type":"ref/prompt","name":"p"}"#, r#""argument":@"#],
        result: &[r#""completion":{"values":[],"total":1e400}"#],
    },
];

/// A pseudo-random generator with a fixed seed.
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % most
    }

    fn one_of(&mut self, all: &[&str]) -> String {
        all[self.below(all.len())].to_owned()
    }

    fn shuffle(&mut self, all: &mut [String]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last + 1));
        }
    }

    fn space(&mut self) -> String {
        self.one_of(&["", "", "", " ", "  ", "\t"])
    }

    fn scalar(&mut self) -> String {
        self.one_of(&[
            "null",
            "true",
            "false",
            "0",
            "-0",
            "1.0",
            "1.50",
            "1e400",
            "-1E+400",
            "0.1e-7",
            "1180591620717411303424",
            "123456789012345678901234567890",
            r#""""#,
            r#""\u0061\/""#,
            r#""\ud83d\ude00 é ü""#,
            r#""\n\t\"{[,:""#,
        ])
    }

    fn value(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 4 } else { 8 }) {
            4 | 5 => self.object(depth - 1, &[]),
            6 => {
                let items: Vec<String> = (0..self.below(4)).map(|_| self.value(depth - 1)).collect();
                let space = self.space();
                format!("[{space}{}{space}]", items.join(&format!("{space},")))
            }
            7 => {
                let deep = 5 + self.below(30);
                format!("{}{}{}", r#"{"d":["#.repeat(deep / 2), self.scalar(), "]}".repeat(deep / 2))
            }
            _ => self.scalar(),
        }
    }

    /// An object with these members and unknown ones, in any order. `@` in a member is replaced by
    /// any object, `#` by any value.
    fn object(&mut self, depth: usize, members: &[&str]) -> String {
        let mut all: Vec<String> = Vec::new();
        for member in members {
            let object = self.object(2, &[]);
            let value = self.value(3);
            all.push(member.replace('@', &object).replace('#', &value));
        }
        let names = ["", "zeta", "a", "\\u0062", "ÄÖ", "x-vendor/é", "__proto__", "0"];
        for name in names.iter().take(self.below(names.len())) {
            let (before, behind) = (self.space(), self.space());
            all.push(format!("{before}\"{name}\"{behind}:{before}{}", self.value(depth)));
        }
        self.shuffle(&mut all);
        let (open, close) = (self.space(), self.space());
        format!("{{{open}{}{close}}}", all.join(","))
    }
}

fn raw(text: &str) -> Raw {
    Raw::parse(&text.to_owned().into()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The members of an object with their bytes, except for `without`.
fn members(object: &str, without: &[&str]) -> Vec<(String, String)> {
    let object = raw(object);
    let all = object.members().map(|(key, value)| (key.into_owned(), value.as_str().to_owned()));
    all.filter(|(key, _)| !without.contains(&key.as_str())).collect()
}

/// A server of one era that returns these results, one after another.
fn server(modern: bool, method: &Method, results: Vec<String>) -> Server {
    let server = if modern { Scripted::modern() } else { Scripted::legacy() };
    server
        .offers("tools", r#"[{"name":"t","inputSchema":{"type":"object"}}]"#)
        .offers("prompts", r#"[{"name":"p"}]"#)
        .offers("resources", r#"[{"uri":"memo:r","name":"r"}]"#)
        .answers(method.name, results)
        .start()
}

/// A client of one era, which returns the result of a request.
enum Asker {
    Modern(Client),
    Legacy(Session),
}

impl Asker {
    async fn result(&self, method: &str, params: &str) -> String {
        match self {
            Self::Modern(client) => client.modern_text(method, params).await.result_text(),
            Self::Legacy(session) => session.request_text(method, params).await.result_text(),
        }
    }
}

/// Sends the objects of one method from one era to the other and back.
async fn carry(method: &Method, client_is_modern: bool, server_is_modern: bool) {
    let mut dice = SeededRandom(u64::from(client_is_modern) * 2 + u64::from(server_is_modern) + 1);
    let mut expected = method.result.to_vec();
    if server_is_modern {
        expected.push(r#""resultType":"complete""#);
    }
    if server_is_modern && method.name == "resources/read" {
        expected.extend([r#""ttlMs":0"#, r#""cacheScope":"private""#]);
    }
    let results: Vec<String> = (0..OBJECTS).map(|_| dice.object(3, &expected)).collect();
    let params: Vec<String> = (0..OBJECTS).map(|_| dice.object(3, method.params)).collect();
    let server = server(server_is_modern, method, results.clone());
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["t"]).await;
    let client = gateway.mcp();
    let asker = if client_is_modern { Asker::Modern(client) } else { Asker::Legacy(client.legacy().await) };
    for (params, result) in params.iter().zip(&results) {
        let got = asker.result(method.name, params).await;
        if client_is_modern && !server_is_modern {
            assert_eq!(members(&got, &ADDED), members(result, &ADDED), "{got}");
        } else {
            assert_eq!(&got, result, "one era, or an older client: every byte");
        }
    }
    let seen = server.seen_calling(method.name);
    assert_eq!(seen.len(), OBJECTS, "each is asked once");
    for (seen, params) in seen.iter().zip(&params) {
        assert_eq!(members(&seen.params(), &["_meta"]), members(params, &[]), "{}", seen.params());
    }
}

#[tokio::test]
async fn a_thousand_objects_each_way_between_modern_peers() {
    for method in &METHODS {
        carry(method, true, true).await;
    }
}

#[tokio::test]
async fn a_thousand_objects_each_way_from_a_modern_client_to_a_legacy_server() {
    for method in &METHODS {
        carry(method, true, false).await;
    }
}

#[tokio::test]
async fn a_thousand_objects_each_way_from_a_legacy_client_to_a_modern_server() {
    for method in &METHODS {
        carry(method, false, true).await;
    }
}

#[tokio::test]
async fn a_thousand_objects_each_way_between_legacy_peers() {
    for method in &METHODS {
        carry(method, false, false).await;
    }
}

#[tokio::test]
async fn lists_keep_the_bytes_of_every_definition() {
    let mut dice = SeededRandom(99);
    let lists = [
        ("tools/list", "tools", r#""name":"memo-"#, r#""inputSchema":{"type":"object"}"#),
        ("prompts/list", "prompts", r#""name":"memo-"#, r#""arguments":[]"#),
        ("resources/list", "resources", r#""uri":"memo:"#, r#""name":"r""#),
        ("resources/templates/list", "resourceTemplates", r#""uriTemplate":"memo:"#, r#""name":"r""#),
    ];
    for is_modern in [true, false] {
        let mut server = if is_modern { Scripted::modern() } else { Scripted::legacy() };
        let mut expected = Vec::new();
        for (method, member, key, more) in lists {
            let definitions: Vec<String> =
                (0..OBJECTS).map(|number| dice.object(3, &[&format!(r#"{key}{number}""#), more])).collect();
            let array = format!("[{}]", definitions.join(","));
            server = server.offers(member, &array);
            expected.push((method, member, array));
        }
        let server = server.start();
        let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
        let client = gateway.mcp_of("one");
        eventually("the lists are there", async || {
            let listed = client.modern_text("tools/list", "{}").await.result_text();
            listed.contains("memo-0").then_some(())
        })
        .await;
        let askers = [Asker::Modern(client.clone()), Asker::Legacy(client.legacy().await)];
        for (method, member, array) in &expected {
            for asker in &askers {
                let got = asker.result(method, "{}").await;
                let (_, listed) =
                    members(&got, &[]).into_iter().find(|(key, _)| key == member).expect("a list");
                assert_eq!(&listed, array, "{method}");
            }
        }
    }
}

//! Ambiguous messages: a tool runs only if every reader of the message finds that tool.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde::Deserialize;
use serde_json::Value;

use crate::support::line::Line;
use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
const MESSAGES: usize = 5_000;

/// One message and its headers.
struct Smuggled {
    body: Vec<u8>,
    method: &'static str,
    name: &'static str,
    /// Whether a correct client would send it.
    is_plain: bool,
}

/// Spellings of a member's name that a lax parser takes for the name itself.
fn misspelled(random: &mut StdRng, name: &str) -> String {
    let escaped = |index: usize| {
        let (at, character) = name.char_indices().nth(index).expect("a letter");
        format!("{}\\u{:04x}{}", &name[..at], u32::from(character), &name[at + 1..])
    };
    match random.random_range(0..6) {
        0 => name.to_owned(),
        1 => escaped(random.random_range(0..name.len())),
        2 => name.to_uppercase(),
        3 => format!("{}{}", name[..1].to_uppercase(), &name[1..]),
        4 => format!("{name}\\u0000"),
        _ => format!(" {name}"),
    }
}

/// The text of one of two names, in some spelling.
fn value(random: &mut StdRng, tool: &str) -> String {
    match random.random_range(0..5) {
        0 => format!("\"\\u{:04x}{}\"", u32::from(tool.as_bytes()[0]), &tool[1..]),
        1 => format!("[\"{tool}\"]"),
        2 => format!("{{\"name\":\"{tool}\"}}"),
        _ => format!("\"{tool}\""),
    }
}

/// An object of `members`, some repeated, misspelled or reordered; `true` if it is unchanged.
fn object(
    random: &mut StdRng,
    members: Vec<(&str, String)>,
    second: impl Fn(&mut StdRng, &str) -> String,
) -> (String, bool) {
    let (mut all, mut is_plain): (Vec<(String, String)>, _) = (Vec::new(), true);
    for (name, value) in members {
        if random.random_bool(0.25) {
            is_plain = false;
            let twice = (misspelled(random, name), second(random, name));
            let at = random.random_range(0..=all.len());
            all.insert(at, twice);
        }
        all.push((name.to_owned(), value));
    }
    let all: Vec<String> = all.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    (format!("{{{}}}", all.join(",")), is_plain)
}

fn smuggled(random: &mut StdRng) -> Smuggled {
    let tools = ["good", "evil"];
    let tool = *tools.choose(random).expect("one");
    let other = |random: &mut StdRng, name: &str| match name {
        "name" => {
            let tool = *["good", "evil"].choose(random).expect("one");
            value(random, tool)
        }
        "method" => {
            (*["\"tools/call\"", "\"tools/list\"", "\"ping\""].choose(random).expect("one")).to_owned()
        }
        "params" => format!("{{\"name\":\"evil\",\"arguments\":{{}},{META}}}"),
        "id" => (*["1", "null", "\"x\"", "1.5", "{}"].choose(random).expect("one")).to_owned(),
        "jsonrpc" => "\"1.0\"".to_owned(),
        _ => "{}".to_owned(),
    };
    let spelled = if random.random_bool(0.2) { value(random, tool) } else { format!("\"{tool}\"") };
    let mut is_plain = spelled == format!("\"{tool}\"");
    let (params, plain) = object(random, vec![("name", spelled), ("arguments", "{}".to_owned())], other);
    is_plain &= plain;
    let params = format!("{},{META}}}", &params[..params.len() - 1]);
    let envelope = vec![
        ("jsonrpc", "\"2.0\"".to_owned()),
        ("id", "1".to_owned()),
        ("method", "\"tools/call\"".to_owned()),
        ("params", params),
    ];
    let (mut text, plain) = object(random, envelope, other);
    is_plain &= plain;
    let around = random.random_range(0..20);
    text = match around {
        0 => format!("[{text}]"),
        1 => format!("{text}{text}"),
        2 => format!("{text}\n{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}}"),
        3 => format!("\u{feff}{text}"),
        4 => format!("{text}\0"),
        5 => format!("/* */{text}"),
        6 => text.replace("{}", "{,}"),
        _ => text,
    };
    let mut body = text.into_bytes();
    if around == 7 {
        body = body.iter().flat_map(|byte| [*byte, 0]).collect(); // UTF-16
    } else if around == 8 {
        body.push(0xff);
    }
    is_plain &= around > 8;
    let lies = random.random_bool(0.2);
    let method = if lies && random.random() { "tools/list" } else { "tools/call" };
    let other = if tool == "good" { "evil" } else { "good" };
    let name = if lies && method == "tools/call" { other } else { tool };
    is_plain &= method == "tools/call" && name == tool;
    Smuggled { body, method, name, is_plain }
}

/// All members `name` directly in `params`, repeated or in another case.
#[derive(Debug, Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    params: &'a serde_json::value::RawValue,
}

/// RULES S8: 5,000 messages with repeated, escaped or differently cased members, a byte order mark, batches, or
/// contradicting headers. If a tool ran, it was the one that the policy allows, that the header names, and that every
/// reader of the body finds.
#[tokio::test]
async fn nothing_runs_that_was_not_judged() {
    let server = Scripted::modern().tool(Tool::named("good")).tool(Tool::named("evil")).start();
    let registry = Registry::new().http("one", &server.url()).with("tools: {deny: [evil]}");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["good"]).await;
    let (mut random, mut line) = (StdRng::seed_from_u64(8), Line::to(&gateway.address));
    let (mut plain, mut odd, mut answered) = (0, 0, 0);
    for _ in 0..MESSAGES {
        let Smuggled { body, method, name, is_plain } = smuggled(&mut random);
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", name)];
        let before = server.runs("good");
        let told = line.post("/mcp", &headers, &body).await;
        let (has_run, text) = (server.runs("good") > before, String::from_utf8_lossy(&body));
        assert!(told.status < 500, "{text}: {told:?}");
        assert!(!has_run || name == "good", "the header named {name}: {text}");
        assert_eq!(has_run, told.body.contains("\"result\""), "{text}: {told:?}");
        if is_plain {
            plain += 1;
            assert_eq!(has_run, name == "good", "{text}: {told:?}");
        } else {
            odd += 1;
            answered += usize::from(has_run);
        }
    }
    assert!(plain > 200 && odd > 3_000, "{plain} plain, {odd} odd");
    // An escape or an unused member does not make a message ambiguous.
    assert!(answered > 20, "{answered} of {odd} odd ones were harmless");
    assert_eq!(server.runs("evil"), 0);
    for seen in server.seen_calling("tools/call") {
        let envelope: Envelope<'_> = serde_json::from_str(&seen.body).expect("each member once");
        let params = envelope.params.get();
        let read: Value = serde_json::from_str(params).expect("JSON");
        assert_eq!(
            (&read["name"], seen.header("mcp-name")),
            (&Value::from("good"), Some("good")),
            "{params}"
        );
        assert!(
            !params.contains("evil") || read.to_string().contains("evil"),
            "one reader sees another: {params}"
        );
    }
}

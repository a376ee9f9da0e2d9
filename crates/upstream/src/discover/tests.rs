//! Lists as servers send them: long, endless, broken, empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;
use crate::connection::{Connector, Dialect, Events};
use crate::fake::{Answer, Fake};
use protocol::error::code;
use protocol::feature::Item;
use protocol::{Era, Version, method};

pub(super) fn discovery(before: Option<Arc<Offer>>, early: mpsc::Sender<Offer>) -> Discovery {
    let deadline = Instant::now() + Duration::from_mins(1);
    let limit = Duration::from_mins(1);
    Discovery { mirrors_parameters: false, limit, server: "s".into(), before, deadline, early }
}

async fn read_from(server: &Fake, mirrors_parameters: bool) -> Result<Result<Offer, ErrorObject>, Error> {
    let is_legacy = server.speaks(Era::Modern) == Some(false);
    let dialect = Dialect { era: if is_legacy { Era::Legacy } else { Era::Modern }, ..Dialect::base() };
    let connection = server.connect(Events::channel().0, dialect).await.expect("accepts");
    let discovery = Discovery { mirrors_parameters, ..discovery(None, mpsc::channel(1).0) };
    discovery.on(connection.as_ref()).await
}

pub(super) async fn offer_of(server: &Fake) -> Offer {
    read_from(server, false).await.expect("reached").expect("listed")
}

/// A server with pages from `page`, which receives the number of the page and the cursor.
fn paged(
    page: impl Fn(usize, Option<String>) -> serde_json::Value + Send + Sync + 'static,
) -> (Fake, Arc<AtomicUsize>) {
    let (server, requests) = (Fake::new(Version::V2025_11_25), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&requests);
    server.answer(move |call| {
        let cursor = call.params.as_ref().and_then(|params| params.get_as("cursor"));
        let number = count.fetch_add(1, Ordering::SeqCst);
        (call.method == method::TOOLS_LIST).then(|| Answer::result(&page(number, cursor)))
    });
    (server, requests)
}

pub(super) fn tool(number: usize) -> serde_json::Value {
    json!({"name": format!("tool{number}"), "inputSchema": {"type": "object"}})
}

#[tokio::test]
async fn every_page_is_read_and_an_empty_cursor_is_one() {
    let cursors = [Some(json!("a")), Some(json!("")), Some(json!("\"b\u{0}")), None];
    let (server, _) = paged(move |number, cursor| {
        let before = number.checked_sub(1).and_then(|before| cursors[before].clone());
        assert_eq!(before, cursor.map(serde_json::Value::from), "each cursor is sent back as it came");
        match &cursors[number] {
            Some(next) => json!({"tools": [tool(number)], "nextCursor": next}),
            None => json!({"tools": [tool(number)], "nextCursor": null}),
        }
    });
    let offer = offer_of(&server).await;
    let names: Vec<_> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["tool0", "tool1", "tool2", "tool3"]);
    assert!(offer.problems.is_empty(), "{:?}", offer.problems);
}

// RULES S26
#[tokio::test]
async fn lists_that_do_not_end_are_ended() {
    let (cycle, requests) =
        paged(|number, _| json!({"tools": [tool(number)], "nextCursor": (number % 2).to_string()}));
    let offer = offer_of(&cycle).await;
    assert_eq!((offer.tools.len(), requests.load(Ordering::SeqCst)), (3, 3));
    assert!(offer.problems[0].contains("a cursor came twice"), "{:?}", offer.problems);

    let (endless, requests) = paged(|number, _| json!({"tools": [], "nextCursor": number.to_string()}));
    assert!(offer_of(&endless).await.problems[0].contains("1,000 pages"));
    assert_eq!(requests.load(Ordering::SeqCst), 1_000);

    let (many, requests) = paged(|page, _| {
        let tools: Vec<_> = (0..3_000).map(|number| tool(page * 3_000 + number)).collect();
        json!({"tools": tools, "nextCursor": page.to_string()})
    });
    let offer = offer_of(&many).await;
    assert_eq!((offer.tools.len(), requests.load(Ordering::SeqCst)), (10_000, 4));
    assert!(offer.problems[0].contains("10,000 items"));

    let (fat, requests) = paged(
        |page, _| json!({"tools": [{"name": page.to_string(), "description": "x".repeat(5 << 20)}], "nextCursor": page.to_string()}),
    );
    assert!(offer_of(&fat).await.problems[0].contains("16 MiB"));
    assert_eq!(requests.load(Ordering::SeqCst), 4);

    let (odd, _) = paged(|_, _| json!({"tools": [tool(0)], "nextCursor": 7}));
    let offer = offer_of(&odd).await;
    assert_eq!(offer.tools.len(), 1);
    assert!(offer.problems[0].contains("not a string"));
}

#[tokio::test]
async fn odd_tools_cost_only_themselves() {
    let (server, _) = paged(|_, _| {
        let bad: Vec<_> = (0..30).map(|_| json!({"name": ""})).collect();
        let mut tools = vec![tool(1), json!({"title": "nameless"}), json!("no object"), tool(1), tool(2)];
        tools.extend(bad);
        json!({"tools": tools})
    });
    let offer = offer_of(&server).await;
    assert_eq!(offer.tools.len(), 2);
    assert_eq!(offer.problems.len(), 17);
    assert_eq!(offer.problems[16], "and 17 more");
    assert!(offer.problems[2].contains("\"tool1\" stands twice"), "{:?}", offer.problems);
}

#[tokio::test]
async fn invalid_header_annotations_matter_only_where_there_are_headers() {
    let page = json!({"tools": [
        tool(1),
        {"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "no good"}}}},
    ]});
    for (version, mirrors, left) in
        [(Version::V2026_07_28, true, 1), (Version::V2026_07_28, false, 2), (Version::V2025_11_25, true, 2)]
    {
        let (server, page) = (Fake::new(version), page.clone());
        server.answer(move |_| Some(Answer::result(&page)));
        let offer = read_from(&server, mirrors).await.expect("reached").expect("listed");
        assert_eq!((offer.tools.len(), offer.problems.len()), (left, 2 - left));
    }
}

#[tokio::test]
async fn server_that_declares_no_tools_is_not_asked_for_a_list() {
    let server = Fake::new(Version::V2025_11_25);
    server.capabilities(&json!({"prompts": {}}));
    assert!(offer_of(&server).await.tools.is_empty());
    assert_eq!(server.executed(method::TOOLS_LIST), 0);
}

#[tokio::test]
async fn refusals_and_broken_pages_are_told_apart() {
    let refuse = |code| {
        let server = Fake::new(Version::V2025_11_25);
        server.answer(move |_| Some(Answer::Reply(Err(ErrorObject::new(code, "no\n")))));
        server
    };
    let offer = offer_of(&refuse(code::METHOD_NOT_FOUND)).await;
    assert!(offer.tools.is_empty() && offer.problems[0].contains("does not know tools/list"));
    let refusal = read_from(&refuse(-32603), false).await.expect("reached").expect_err("refused");
    assert_eq!(refused(&refusal).to_string().matches(r#"-32603 "no\n""#).count(), 1);
    for page in [json!({"tools": {}}), json!({"tools": "none"}), json!([])] {
        let server = Fake::new(Version::V2025_11_25);
        server.answer(move |_| Some(Answer::result(&page)));
        assert!(matches!(read_from(&server, false).await, Err(Error::Malformed { .. })));
    }
}

#[tokio::test]
async fn a_definition_that_is_nested_without_end_is_left_out() {
    // Deep enough to overflow the stack of a recursive reader.
    let deep = format!("{}\"x-mcp-header\"{}", "[".repeat(200_000), "]".repeat(200_000));
    let bomb = format!(r#"{{"name":"bomb","inputSchema":{{"a":{deep}}}}}"#);
    let list = format!(r#"{{"tools":[{bomb},{{"name":"good","inputSchema":{{}}}}]}}"#);
    let list = Raw::parse(&bytes::Bytes::from(list)).expect("JSON");
    let server = Fake::new(Version::V2026_07_28);
    server.answer(move |call| (call.method == method::TOOLS_LIST).then(|| Answer::Reply(Ok(list.clone()))));
    let offer = read_from(&server, true).await.expect("reached").expect("listed");
    assert_eq!(offer.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["good"]);
    assert!(offer.problems[0].contains("nested 200002 levels deep"), "{:?}", offer.problems);
}

/// A server with all capabilities and with lists from `page`, by kind. It refuses a list that is `None`.
pub(super) fn whole(
    version: Version,
    page: impl Fn(Kind) -> Option<serde_json::Value> + Send + Sync + 'static,
) -> Fake {
    let server = Fake::new(version);
    server.capabilities(&json!({
        "tools": {}, "resources": {}, "prompts": {}, "extensions": {protocol::skill::EXTENSION: {}},
    }));
    server.answer(move |call| {
        let kind = Kind::ALL.into_iter().find(|kind| kind.method() == call.method)?;
        let refusal = || Answer::Reply(Err(ErrorObject::new(-32603, "not now")));
        Some(page(kind).as_ref().map_or_else(refusal, Answer::result))
    });
    server
}

pub(super) fn full(kind: Kind) -> serde_json::Value {
    let item = |key: &str| match kind {
        Kind::Skills => json!({
            "uri": format!("{key}/SKILL.md"), "frontmatter": {"name": key, "description": "d"}, "resources": "dynamic",
        }),
        _ => json!({"x": 1, "name": key, kind.key(): key, "inputSchema": {"type": "object"}}),
    };
    json!({kind.member(): [item("a:1"), item("a:2")], "ttlMs": 5000, "cacheScope": "public"})
}

fn keys(items: &[Item]) -> Vec<&str> {
    items.iter().map(|item| item.key.as_str()).collect()
}

#[tokio::test]
async fn every_kind_is_read_and_what_its_list_allows_caches() {
    let offer = offer_of(&whole(Version::V2026_07_28, |kind| Some(full(kind)))).await;
    assert_eq!((offer.tools.len(), offer.problems.len()), (2, 0), "{:?}", offer.problems);
    for items in [&offer.resources, &offer.templates, &offer.prompts] {
        assert_eq!(keys(items), ["a:1", "a:2"]);
    }
    assert_eq!(keys(&offer.skills), ["a:1/SKILL.md", "a:2/SKILL.md"]);
    let definition = r#"{"inputSchema":{"type":"object"},"name":"a:1","x":1}"#;
    assert_eq!(offer.prompts[0].definition.as_str(), definition);
    let public = Caching { ttl_ms: 5000, is_public: true };
    assert!(Kind::ALL.into_iter().all(|kind| offer.caching(kind) == Some(public)));
}

#[tokio::test]
async fn the_strictest_page_speaks_for_its_list() {
    let server = Fake::new(Version::V2026_07_28);
    server.capabilities(&json!({"prompts": {}}));
    server.answer(|call| {
        let second = call.params.as_ref().is_some_and(|params| params.get("cursor").is_some());
        let page = if second {
            json!({"prompts": [{"name": "b"}], "ttlMs": 7, "cacheScope": "private"})
        } else {
            json!({"prompts": [{"name": "a"}], "ttlMs": 5000, "cacheScope": "public", "nextCursor": "n"})
        };
        (call.method == method::PROMPTS_LIST).then(|| Answer::result(&page))
    });
    let offer = offer_of(&server).await;
    assert_eq!(offer.caching(Kind::Prompts), Some(Caching { ttl_ms: 7, is_public: false }));
    assert_eq!(offer.caching(Kind::Tools), None, "it has no such list");
    assert_eq!(server.executed(method::TOOLS_LIST) + server.executed(method::RESOURCES_LIST), 0);
}

#[tokio::test]
async fn a_list_that_fails_costs_only_itself() {
    for broken in Kind::ALL {
        for bad in [None, Some(json!([]))] {
            let server =
                whole(
                    Version::V2025_11_25,
                    move |kind| {
                        if kind == broken { bad.clone() } else { Some(full(kind)) }
                    },
                );
            let offer = offer_of(&server).await;
            let there = [&offer.resources, &offer.templates, &offer.prompts, &offer.skills].map(Vec::len);
            assert_eq!(offer.tools.len() + there.iter().sum::<usize>(), 8, "{broken:?}");
            assert_eq!(offer.caching(broken), None);
            let [problem] = offer.problems.as_slice() else { panic!("{:?}", offer.problems) };
            assert!(problem.starts_with(&format!("its list of {} is left out", broken.member())));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_never_comes_is_not_waited_for_and_its_request_is_cancelled() {
    let server = whole(Version::V2025_11_25, |kind| Some(full(kind)));
    server.answer(|call| match call.method.as_str() {
        method::PROMPTS_LIST => Some(Answer::Silence),
        method::TOOLS_LIST => None,
        _ => Some(Answer::Reply(Err(ErrorObject::new(code::METHOD_NOT_FOUND, "no")))),
    });
    let offer = offer_of(&server).await;
    assert_eq!((offer.tools.len(), offer.prompts.len(), server.open_requests()), (1, 0, 0));
    assert_eq!(offer.problems.len(), 3, "to have no templates is no problem: {:?}", offer.problems);
    server.answer(|call| (call.method == method::PROMPTS_LIST).then_some(Answer::Die));
    assert!(matches!(read_from(&server, false).await, Err(Error::Lost { .. })), "there is nobody to ask");
}

#[tokio::test]
async fn odd_items_cost_only_themselves() {
    let deep = || serde_json::from_str::<serde_json::Value>(&format!("{}{}", "[".repeat(70), "]".repeat(70)));
    let server = whole(Version::V2025_11_25, move |kind| {
        let good = json!({"name": "t:1", kind.key(): "t:1"});
        let bomb = json!({kind.key(): "t:2", "x": deep().expect("JSON")});
        Some(json!({kind.member(): [good, {"other": "x"}, good, bomb, 7, {kind.key(): ""}]}))
    });
    let offer = offer_of(&server).await;
    for items in [&offer.resources, &offer.templates, &offer.prompts] {
        assert_eq!(keys(items), ["t:1"]);
    }
    assert_eq!(offer.problems.len(), 17, "{:?}", offer.problems);
    for part in ["a resource without a uri", "the resource \"t:1\" stands twice", "nested 71 levels deep"] {
        assert!(offer.problems.iter().any(|problem| problem.contains(part)), "{part}: {:?}", offer.problems);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_stays_as_it_was_read_last() {
    let refused = || Some(Answer::Reply(Err(ErrorObject::new(-32603, "not now"))));
    for broken in Kind::ALL {
        for failure in [refused, || Some(Answer::result(&json!({}))), || Some(Answer::Silence)] {
            let server = whole(Version::V2025_11_25, |kind| Some(full(kind)));
            let first = Arc::new(offer_of(&server).await);
            if broken == Kind::Tools && matches!(failure(), Some(Answer::Silence)) {
                continue; // a failed list of tools fails the whole discovery
            }
            server.answer(move |call| {
                let kind = Kind::ALL.into_iter().find(|kind| kind.method() == call.method)?;
                if kind == broken { failure() } else { Some(Answer::result(&json!({kind.member(): []}))) }
            });
            let dialect = Dialect { era: Era::Legacy, ..Dialect::base() };
            let connection = server.connect(Events::channel().0, dialect).await.expect("accepts");
            let before = Some(Arc::clone(&first));
            let offer = discovery(before, mpsc::channel(1).0)
                .on(connection.as_ref())
                .await
                .expect("reached")
                .expect("listed");
            let counts = |offer: &Offer| {
                let items = [&offer.resources, &offer.templates, &offer.prompts, &offer.skills].map(Vec::len);
                [offer.tools.len(), items[0], items[1], items[2], items[3]]
            };
            let mut expected = [0; 5];
            expected[broken as usize] = counts(&first)[broken as usize];
            assert!(counts(&offer) == expected && expected != [0; 5], "{broken:?}: {:?}", counts(&offer));
            let [problem] = offer.problems.as_slice() else { panic!("{:?}", offer.problems) };
            assert!(problem.contains("stays as it was read last"), "{problem}");
        }
    }
}

/// The offer of a server with one list of `items`.
async fn offer_with(version: Version, kind: Kind, items: serde_json::Value) -> Offer {
    let server = whole(version, move |listed| {
        Some(json!({listed.member(): if listed == kind { items.clone() } else { json!([]) }}))
    });
    offer_of(&server).await
}

#[tokio::test]
async fn definitions_that_clients_refuse_are_repaired_or_left_out_and_each_is_named() {
    for version in [Version::V2025_11_25, Version::V2026_07_28] {
        let tools = json!([
            {"name": "good", "inputSchema": {"type": "object"}},
            {"name": "none"},
            {"name": "text", "inputSchema": {"type": "string"}},
            {"name": "int", "inputSchema": {"type": "object", "properties": {"a": {"type": "int"}}}},
        ]);
        let offer = offer_with(version, Kind::Tools, tools).await;
        let names: Vec<_> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["good", "none", "int"]);
        let [good, none, int] = offer.tools.as_slice() else { panic!("three tools") };
        assert!(good.repaired.is_none() && int.repaired.is_none());
        assert_eq!(none.definition.as_str(), r#"{"name":"none"}"#, "as the server sent it");
        let offered = none.definition_as("none");
        assert_eq!(offered.as_str(), r#"{"name":"none","inputSchema":{"type":"object"}}"#);
        let expected = [
            r#"the tool "none" was repaired: inputSchema is missing and accepts any object now"#,
            r#"the tool "text" was left out: its inputSchema has the type"#,
            r#"the tool "int" is offered, but its inputSchema is not valid: properties.a.type is `int`"#,
        ];
        assert_eq!(offer.problems.len(), expected.len(), "{:?}", offer.problems);
        for (problem, expected) in offer.problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
    for kind in [Kind::Resources, Kind::Templates, Kind::Prompts] {
        let item = json!({kind.key(): "a:1", "name": "a:1", "description": null});
        let offer = offer_with(Version::V2025_11_25, kind, json!([item])).await;
        let items = [&offer.resources, &offer.templates, &offer.prompts].into_iter().flatten();
        let definitions: Vec<_> = items.map(|item| item.definition.clone()).collect();
        assert!(definitions.len() == 1 && definitions[0].get("description").is_none(), "{kind:?}");
        assert!(offer.problems[0].contains("description is null and was left out"), "{:?}", offer.problems);
    }
}

#[tokio::test]
async fn server_info_is_repaired_too() {
    let server = whole(Version::V2025_11_25, |kind| Some(json!({kind.member(): []})));
    server.capabilities(&json!({"tools": {"listChanged": "yes"}, "logging": null, "extensions": {"a/b": 5}}));
    let offer = offer_of(&server).await;
    assert_eq!(offer.peer.capabilities.as_str(), r#"{"extensions":{},"tools":{}}"#);
    assert!(offer.problems[0].starts_with("its capabilities were repaired"), "{:?}", offer.problems);
}

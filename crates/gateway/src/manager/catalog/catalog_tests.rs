//! The catalog over invented offers: what changes in a definition, what the operator chooses, pages.

use super::fixture::{Has, catalog, chosen, shown};
use super::*;
use protocol::Version;

const NEW: Version = Version::NEWEST_MODERN;

#[test]
fn definitions_change_in_their_name_and_nowhere_else() {
    for kind in [Kind::Tools, Kind::Prompts] {
        let has = |names: &'static [&'static str]| match kind {
            Kind::Tools => Has { tools: names, ..Has::default() },
            _ => Has { prompts: names, ..Has::default() },
        };
        let catalog = catalog(&[("a", has(&["t"])), ("b", has(&["t", "u"]))]);
        let pages = [None, Some("b__t")].map(|after| catalog.listing(kind).page(after, NEW).expect("a page"));
        assert_eq!(
            pages[0].items().as_str(),
            r#"[{"x":1e400,"name":"a__t", "y":{"z":null}},{"x":1e400,"name":"b__t", "y":{"z":null}}]"#
        );
        assert_eq!(pages[1].items().as_str(), r#"[{"x":1e400,"name":"u", "y":{"z":null}}]"#);
        let lookup = |name| if kind == Kind::Tools { catalog.tool(name) } else { catalog.prompt(name) };
        let Lookup::Found(route) = lookup("b__t") else { panic!("found") };
        assert_eq!((route.server.as_ref(), route.subject.as_ref()), ("b", "t"));
        assert_eq!(lookup("t"), Lookup::Ambiguous(&["a__t".to_owned(), "b__t".to_owned()]));
        assert_eq!(lookup("v"), Lookup::Unknown);
    }
}

#[test]
fn the_operator_chooses_and_renames_tools_and_only_those() {
    let choice = Tools {
        allow: Some(vec!["a".into(), "b".into(), "c".into()]),
        deny: vec!["b".into()],
        rename: [("a".to_owned(), "alpha".to_owned())].into(),
        ..Tools::default()
    };
    let names = &["a", "b", "c", "d"];
    let catalog = chosen(&[("s", Has { tools: names, prompts: names, ..Has::default() })], &choice);
    assert_eq!(shown(&catalog, Kind::Tools), ["alpha", "c"]);
    assert_eq!(shown(&catalog, Kind::Prompts), *names);
    let Lookup::Found(route) = catalog.tool("s__alpha") else { panic!("found") };
    assert_eq!(&*route.subject, "a", "the server knows it by its own name");
    assert_eq!(catalog.tool("b"), Lookup::Unknown);
}

#[test]
fn pages_follow_one_another_wherever_the_one_before_ended() {
    let catalog =
        catalog(&[("s", Has { resources: &["m:a", "m:b", "m:c", "m:d", "m:e"], ..Has::default() })]);
    let listing = catalog.listing(Kind::Resources);
    let mut after = None;
    let mut sizes = Vec::new();
    loop {
        let page = listing.page(after.as_deref(), NEW).expect("a page");
        sizes.push(page.items().elements().count());
        after = page.next().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [2, 2, 1]);
    let elsewhere = listing.page(Some("m:a"), NEW).expect("the list changed since that page");
    assert_eq!((elsewhere.items().elements().count(), elsewhere.next()), (2, Some("m:c")));
    assert!(listing.page(Some("zz"), NEW).is_none());
    assert_eq!(catalog.listing(Kind::Tools).page(None, NEW).expect("one empty page").items().as_str(), "[]");
}

#[test]
fn a_page_is_written_once_in_each_form() {
    let catalog = catalog(&[("s", Has { tools: &["a", "b", "c"], ..Has::default() })]);
    let listing = catalog.listing(Kind::Tools);
    let page = |after| listing.page(after, NEW).expect("a page");
    let write = |page: Page<'_>, form: Form| page.written(form, Page::items).result();
    let first = write(page(None), Form::Modern);
    assert_eq!(first, page(None).items());
    assert_eq!(first.bytes().as_ptr(), write(page(None), Form::Modern).bytes().as_ptr(), "no copy");
    let never = |page: Page<'_>, form| page.written(form, |_| panic!("written again")).result();
    assert_eq!(never(page(None), Form::Modern), first);
    for (after, form) in [(None, Form::Legacy), (None, Form::Unsettled), (Some("b"), Form::Modern)] {
        assert_ne!(write(page(after), form).bytes().as_ptr(), first.bytes().as_ptr());
    }
    // Elsewhere than pages usually begin nothing is kept.
    let elsewhere = write(page(Some("a")), Form::Modern);
    assert_ne!(elsewhere.bytes().as_ptr(), write(page(Some("a")), Form::Modern).bytes().as_ptr());
    assert_eq!(elsewhere, page(Some("a")).items());
}

#[test]
fn a_change_of_one_list_is_no_change_of_another() {
    let before = catalog(&[("s", Has { tools: &["t"], templates: &["m:{x}"], ..Has::default() })]);
    let after = catalog(&[("s", Has { tools: &["t"], templates: &["m:{y}"], ..Has::default() })]);
    let same = List::ALL.map(|list| before.lists_the_same(&after, list));
    assert_eq!((List::ALL, same), ([List::Tools, List::Resources, List::Prompts], [true, false, true]));
}

#[test]
fn references_of_a_tool_follow_its_resource_to_where_it_is_offered() {
    let tool = r#"={"name":"t","_meta":{"z":1.0,"ui":{"resourceUri":"ui://w","visibility":["app"]},"ui/resourceUri":"ui://w"}}"#;
    let tools = &[tool];
    let has = |resources| Has { tools, resources, ..Has::default() };
    let definition = |catalog: &Catalog| catalog.all_tools()[0].definition.as_str().to_owned();

    let alone = catalog(&[("a", has(&["ui://w"])), ("b", Has::default())]);
    assert_eq!(definition(&alone), &tool[1..], "not a byte where nothing clashes");

    let clash = catalog(&[("a", has(&["ui://w"])), ("b", Has { resources: &["ui://w"], ..Has::default() })]);
    let expected = tool[1..].replace("ui://w", "ui://a/w");
    assert_eq!(definition(&clash), expected);
    assert_eq!(shown(&clash, Kind::Resources), ["ui://a/w", "ui://b/w"]);

    let unlisted = catalog(&[("a", has(&[])), ("b", Has { resources: &["ui://w"], ..Has::default() })]);
    assert_eq!(definition(&unlisted), expected, "else it would lead to somebody else's");
    let UriServers::Guessed(places) = unlisted.resources().places("ui://a/w") else {
        panic!("nobody lists it")
    };
    assert_eq!((places[0].server.as_ref(), places[0].uri.as_str()), ("a", "ui://w"));
}

#[test]
fn an_older_client_is_told_of_objects_only() {
    let tool = r##"={"name":"t","outputSchema":{"type":"array","items":{"$ref":"#"}},"z":1e400}"##;
    let plain = r#"={"name":"o","outputSchema":{"type":"object"}}"#;
    let catalog = catalog(&[("s", Has { tools: &["a", tool, plain], ..Has::default() })]);
    let page = |after, version| catalog.listing(Kind::Tools).page(after, version).expect("a page").items();
    let old = Version::NEWEST_LEGACY;
    assert!(page(None, NEW).as_str().ends_with(&format!(",{}]", &tool[1..])));
    let wrapped = r##"{"name":"t","outputSchema":{"type":"object","properties":{"result":{"type":"array","items":{"$ref":"#/properties/result"}}},"required":["result"]},"z":1e400}"##;
    assert!(page(None, old).as_str().ends_with(&format!(",{wrapped}]")), "{}", page(None, old).as_str());
    assert!(page(Some("a"), old).as_str().starts_with(&format!("[{wrapped},")), "also off the beaten track");
    assert_eq!(page(Some("t"), old), page(Some("t"), NEW));
    let wraps = catalog.tools().iter().map(|entry| entry.route.wraps_result).collect::<Vec<_>>();
    assert_eq!(wraps, [false, true, false]);
}

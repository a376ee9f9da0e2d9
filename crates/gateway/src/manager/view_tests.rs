//! Rules of views: what each of them selects, in every spelling.

use super::*;

const fn tool<'a>(server: &'a str, name: &'a str, effect: Effect) -> Target<'a> {
    Target { server, kind: Kind::Tools, name, tool: ToolFacts::of(effect) }
}

const fn resource<'a>(server: &'a str, name: &'a str) -> Target<'a> {
    Target { server, kind: Kind::Resources, name, tool: ToolFacts::of(Effect::ReadOnly) }
}

fn view(name: &str, servers: Option<&[&str]>, allow: Option<&[&str]>, deny: &[&str]) -> View {
    View::of(name, servers, allow, deny).expect("rules")
}

fn is_offered(selected: &View, target: Target<'_>) -> bool {
    let decision = decide(Some(selected), &Tools::default(), target);
    assert_eq!(decision.is_offered, offers(Some(selected), &Tools::default(), target), "{target:?}");
    decision.is_offered
}

#[test]
fn only_selected_servers_and_items_are_offered_and_deny_takes_precedence() {
    let whole = view("v", Some(&["files", "doc*"]), None, &["files/delete_*"]);
    let some = view("v", None, Some(&["files/read_*", "docs/*"]), &["docs/secret"]);
    for (server, name, of_whole, of_some) in [
        ("files", "read_a", true, true),
        ("files", "delete_a", false, false),
        ("files", "write_a", true, false),
        ("docs", "search", true, true),
        ("docs", "secret", true, false),
        ("mail", "read_a", false, false),
        ("file", "read_a", false, false),
    ] {
        let tool = tool(server, name, Effect::Unsafe);
        assert_eq!(
            (is_offered(&whole, tool), is_offered(&some, tool)),
            (of_whole, of_some),
            "{server}/{name}"
        );
    }
    assert!(whole.sees("docs") && !whole.sees("mail") && some.sees("files") && !some.sees("mail"));
}

#[test]
fn servers_and_allow_narrow_each_other() {
    let both = view("v", Some(&["files"]), Some(&["*/read"]), &[]);
    assert!(is_offered(&both, tool("files", "read", Effect::Unsafe)));
    assert!(!is_offered(&both, tool("mail", "read", Effect::Unsafe)) && !both.sees("mail"));
}

#[test]
fn read_only_view_has_tools_that_are_declared_to_change_nothing() {
    let selected = View { read_only: true, ..view("v", Some(&["*"]), None, &[]) };
    for (effect, expected) in [
        (Effect::ReadOnly, true),
        (Effect::Metered, true),
        (Effect::Idempotent, false),
        (Effect::Unsafe, false),
    ] {
        assert_eq!(is_offered(&selected, tool("s", "t", effect)), expected, "{effect:?}");
    }
    assert!(is_offered(&selected, resource("s", "file:///a")), "resources are only read");
}

#[test]
fn no_spelling_of_a_uri_gets_around_a_rule() {
    let selected = view("v", Some(&["s"]), None, &["s/file:///secret/*"]);
    let only = view("v", None, Some(&["s/file:///public/*"]), &[]);
    for spelling in [
        "file:///secret/a",
        "file:///%73ecret/a",
        "file:///%73%65cret/%61",
        "file:///public/../secret/a",
        "file:///./secret/a",
        "file:///public/%2e%2e/secret/a",
        "file:///public/%2E%2E%2Fsecret/a",
        "file:///public/./../secret/a",
    ] {
        assert!(!is_offered(&selected, resource("s", spelling)), "{spelling}");
        assert!(!is_offered(&only, resource("s", spelling)), "{spelling}");
    }
    for spelling in ["file:///public/a", "file:///public/a%20b", "file:///public/x/../a"] {
        assert!(is_offered(&selected, resource("s", spelling)), "{spelling}");
        assert!(is_offered(&only, resource("s", spelling)), "{spelling}");
    }
}

#[test]
fn decision_names_the_setting_and_the_rule() {
    let selected = view("v", Some(&["files"]), Some(&["files/read"]), &["files/*_all"]);
    let tools = Tools { deny: vec!["hidden".to_owned()], ..Tools::default() };
    for (server, name, setting, rule) in [
        ("files", "read", "views.v.allow", Some("files/read")),
        ("files", "write", "views.v.allow", None),
        ("files", "read_all", "views.v.deny", Some("files/*_all")),
        ("mail", "read", "views.v.servers", None),
        ("files", "hidden", "mcp_servers.files.tools.deny", None),
    ] {
        let decision = decide(Some(&selected), &tools, tool(server, name, Effect::Unsafe));
        let found = (decision.setting.as_deref(), decision.rule.as_deref());
        assert_eq!(found, (Some(setting), rule), "{server}/{name}");
    }
    let offered = Decision { is_offered: true, setting: None, rule: None, line: None };
    assert_eq!(decide(None, &Tools::default(), tool("s", "t", Effect::Unsafe)), offered);
}

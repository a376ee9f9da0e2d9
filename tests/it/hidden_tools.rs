//! Tools that `tools.deny` or `tools.allow` hides: superusers learn that, and to anybody else they are unknown.

use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry, Running, api_keys};

const KEY: &str = "swy_op_0123456789abcdef0123456789abcdef0123456789abcdef";
const CALLER: &str = "swy_c_abcdef0123456789abcdef0123456789abcdef0123456789";

/// Exit code and standard error of a command.
fn run(gateway: &Running, arguments: &[&str]) -> (Option<i32>, String) {
    let url = gateway.url("");
    let output = gateway.gateway().output_with_input(&[arguments, &["--url", &url]].concat(), b"");
    (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
}

#[tokio::test]
async fn a_hidden_tool_is_explained_to_a_superuser_and_unknown_to_others() {
    let tools = ["add", "slow", "broken"].map(Tool::named);
    let server = tools.into_iter().fold(Scripted::modern(), Scripted::tool).start();
    let keys = format!("server: {{{}}}", api_keys(&[(KEY, "role: superuser"), (CALLER, "role: caller")]));
    let registry = Registry::new().http("one", &server.url()).with("tools: {deny: [slow]}");
    let registry = registry.http("two", &server.url()).with("tools: {allow: [add]}").setting(&keys);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers_to("one__add", &format!("Bearer {KEY}")).await;
    gateway.offers_to("two__add", &format!("Bearer {KEY}")).await;
    for (name, expected) in [
        ("slow", "hidden by `tools.deny` of `one`"),
        ("one__slow", "hidden by `tools.deny` of `one`"),
        ("two__broken", "hidden by `tools.allow` of `two`"),
    ] {
        for verb in ["tool", "call"] {
            let told = run(&gateway, &[verb, name, "--key", KEY]);
            assert!(told.0 == Some(1) && told.1.matches(expected).count() == 1, "{verb} {name}: {}", told.1);
            let unknown = run(&gateway, &[verb, name, "--key", CALLER]);
            assert!(unknown.0 == Some(1) && !unknown.1.contains("hidden"), "{verb} {name}: {}", unknown.1);
        }
    }
    let absent = run(&gateway, &["tool", "none", "--key", KEY]);
    assert!(absent.0 == Some(1) && !absent.1.contains("hidden"), "{}", absent.1);
    assert_eq!(server.runs("slow"), 0);
}

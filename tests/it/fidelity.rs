//! Fidelity: unknown members, the order of keys, the spelling of numbers, big integers and nulls
//! arrive byte for byte, in both directions and for each pair of eras.

use serde_json::json;

use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Client, Gateway, Registry};

/// Values that a gateway with typed or parsed messages would change.
const ARGUMENTS: &str = r#"{"z":1.0,"a":1e400,"big":123456789012345678901234567890,"precise":1.0000000000000000001,"none":null,"nested":{"b":[1,2.50,{"x":null,"":-0}],"a":"\u00e9\/é"},"escaped":"\u0041","empty":{},"list":[ ]}"#;
const RESULT: &str = r#"{"zeta":1e400,"content":[{"type":"text","vendor":{"n":-0,"m":null},"text":"a\u0041\/"}],"structuredContent":{"big":18446744073709551617,"one":1.0,"none":null},"isError":false,"resultType":"complete","_meta":{"vendor/x":[1.50]}}"#;
const ERROR: &str =
    r#"{"message":"it said no \u0041","code":-32042,"data":{"x":1e400,"none":null},"hint":[1.0]}"#;

fn tool(name: &str) -> Tool {
    Tool::named(name).does(Act::Result(RESULT.to_owned()))
}

#[tokio::test]
async fn modern_parameters_and_results_pass_untouched() {
    let server = Scripted::modern().tool(tool("a")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    let params = format!(r#"{{"arguments":{ARGUMENTS},"x-first":[1.0],"name":"a","x-last":null}}"#);
    let answer = gateway.mcp().modern_text("tools/call", &params).await;
    assert_eq!(answer.result_text(), RESULT);
    let sent = server.seen_calling("tools/call").pop().expect("one call").params();
    let (before_meta, _) = params.rsplit_once('}').expect("an object");
    let meta = sent.strip_prefix(before_meta).unwrap_or_else(|| panic!("{sent}"));
    let expected = Client::at("http://unused").modern_body("tools/call", "{}");
    let (_, expected) = expected.split_once("{\"_meta\"").expect("it has _meta");
    assert_eq!(meta, format!(",\"_meta\"{}", expected.strip_suffix('}').expect("the envelope's brace")));
}

#[tokio::test]
async fn a_qualified_name_is_the_only_thing_that_changes() {
    let (one, two) = (Scripted::modern().tool(tool("a")).start(), Scripted::legacy().tool(tool("a")).start());
    let registry = Registry::new().http("one", &one.url()).http("two", &two.url());
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["one__a", "two__a"]).await;
    for (name, server) in [("one__a", &one), ("two__a", &two)] {
        let params = |name: &str| format!(r#"{{"arguments":{ARGUMENTS},"name":"{name}","x":null"#);
        let answer = gateway.mcp().modern_text("tools/call", &format!("{}}}", params(name))).await;
        assert!(answer.result_text().starts_with(RESULT.trim_end_matches('}')), "{answer:?}");
        let sent = server.seen_calling("tools/call").pop().expect("one call").params();
        assert!(sent.starts_with(&params("a")), "{sent}");
    }
}

#[tokio::test]
async fn legacy_clients_lose_nothing_either() {
    for server in [Scripted::modern(), Scripted::legacy(), Scripted::sse()] {
        let server = server.tool(tool("a")).start();
        let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
        gateway.offers(&["a"]).await;
        let session = gateway.mcp().legacy().await;
        let params = format!(r#"{{"arguments":{ARGUMENTS},"name":"a","x":null}}"#);
        let answer = session.request_text("tools/call", &params).await;
        assert_eq!(answer.result_text(), RESULT, "{}", server.url());
        let sent = server.seen_calling("tools/call").pop().expect("one call").params();
        assert!(sent.starts_with(params.trim_end_matches('}')), "{sent}");
    }
}

#[tokio::test]
async fn an_error_of_a_server_passes_untouched() {
    let tool = Tool::named("a").does(Act::Error(ERROR.to_owned()));
    let server = Scripted::modern().tool(tool).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    for answer in
        [gateway.mcp().call("a", json!({})).await, gateway.mcp().legacy().await.call("a", json!({})).await]
    {
        assert!(answer.response_text().contains(ERROR), "{answer:?}");
    }
    assert_eq!(server.runs("a"), 2, "an error of a tool is an answer and is not retried");
}

#[tokio::test]
async fn rest_shows_the_untouched_content() {
    let server = Scripted::modern().tool(tool("a")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    let body = format!(r#"{{"server":"one","tool":"a","arguments":{ARGUMENTS}}}"#);
    let answer = gateway.post("/call", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains(r#"[{"type":"text","vendor":{"n":-0,"m":null},"text":"a\u0041\/"}]"#));
    assert!(answer.body.contains(r#"{"big":18446744073709551617,"one":1.0,"none":null}"#));
    let sent = server.seen_calling("tools/call").pop().expect("one call").params();
    assert!(sent.contains(&format!(r#""arguments":{ARGUMENTS}"#)), "{sent}");
}

#[tokio::test]
async fn definitions_keep_their_bytes_and_order() {
    let odd = r#"{"x-vendor":{"n":1.0,"m":null},"name":"b","inputSchema":{"type":"object","$defs":{"A":{"maximum":1e400}},"properties":{"z":{},"a":{"default":-0}}},"execution":{"taskSupport":"optional"},"icons":[]}"#;
    let server = Scripted::modern().tool(Tool::named("a")).tool(Tool::defined("b", odd)).pages_of(1).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a", "b"]).await;
    let first = gateway.mcp().modern("tools/list", json!({})).await;
    assert!(first.result_text().contains(odd), "{first:?}");
    let again = gateway.mcp().modern("tools/list", json!({})).await;
    assert_eq!(first.result_text(), again.result_text());
    assert!(gateway.get("/tools").await.body.contains(odd));
}

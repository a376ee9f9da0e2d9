//! The Rust SDK on both sides of the program: independent clients and servers, in every combination
//! of eras and transports.

use serde_json::json;

use crate::support::rmcp_peer::{self, Era};
use crate::support::{Gateway, Registry};

#[tokio::test]
async fn http_clients_of_both_eras_reach_http_servers_of_both_eras() {
    let (modern, legacy) = (rmcp_peer::http_server(Era::Modern), rmcp_peer::http_server(Era::Legacy));
    let registry = Registry::new().http("modern", &modern.url).http("legacy", &legacy.url);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["modern__echo", "legacy__echo"]).await;
    for era in [Era::Modern, Era::Legacy] {
        let client = rmcp_peer::http_client(&gateway.url("/mcp"), era).await;
        let tools = client.list_all_tools().await.expect("a list");
        let mut names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        names.sort_unstable();
        assert_eq!(names, ["legacy__echo", "legacy__era", "modern__echo", "modern__era"]);
        assert_eq!(rmcp_peer::call(&client, "modern__era", &json!({})).await, "Modern");
        assert_eq!(rmcp_peer::call(&client, "legacy__era", &json!({})).await, "Legacy");
        assert_eq!(
            rmcp_peer::call(&client, "legacy__echo", &json!({"x": [1, null]})).await,
            r#"{"x":[1,null]}"#
        );
        client.cancel().await.expect("it ends");
    }
}

#[tokio::test]
async fn stdio_clients_of_both_eras_reach_every_server() {
    let legacy = rmcp_peer::http_server(Era::Legacy);
    let registry = Registry::new().http("legacy", &legacy.url).child("child", &["--tools", "beep"]);
    for era in [Era::Modern, Era::Legacy] {
        let gateway = Gateway::of(&registry);
        let client = rmcp_peer::stdio_client(gateway.command("stdio"), era).await;
        assert_eq!(rmcp_peer::call(&client, "era", &json!({})).await, "Legacy");
        assert_eq!(rmcp_peer::call(&client, "beep", &json!({"x": 1})).await, r#"{"x":1}"#);
        client.cancel().await.expect("it ends");
    }
}

#[tokio::test]
async fn one_server_alone_has_an_endpoint_of_its_own() {
    let (modern, legacy) = (rmcp_peer::http_server(Era::Modern), rmcp_peer::http_server(Era::Legacy));
    let registry = Registry::new().http("modern", &modern.url).http("legacy", &legacy.url);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["modern__echo", "legacy__echo"]).await;
    for (name, speaks) in [("modern", "Modern"), ("legacy", "Legacy")] {
        for era in [Era::Modern, Era::Legacy] {
            let client = rmcp_peer::http_client(&gateway.url(&format!("/mcp/{name}")), era).await;
            assert_eq!(rmcp_peer::call(&client, "era", &json!({})).await, speaks);
            assert_eq!(client.list_all_tools().await.expect("a list").len(), 2);
        }
    }
    assert_eq!(gateway.mcp_of("none").modern("tools/list", json!({})).await.status, 404);
}

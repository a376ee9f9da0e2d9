//! The Rust SDK as an independent peer: what it accepts and sends was written by others.

use std::borrow::Cow;
use std::net::Ipv4Addr;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientConfig, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Background, listen};

/// An era of the protocol, from where the SDK stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28.
    Modern,
    /// 2025-11-25.
    Legacy,
}

/// A client of the SDK.
pub type Client = RunningService<RoleClient, ClientConfig>;

/// Connects the SDK's HTTP client to `url`.
pub async fn http_client(url: &str, era: Era) -> Client {
    let config = StreamableHttpClientTransportConfig::with_uri(url.to_owned());
    let transport = StreamableHttpClientTransport::from_config(config);
    ClientConfig::default().serve_with_lifecycle(transport, lifecycle(era)).await.expect("it connects")
}

/// Connects the SDK's stdio client to a child started by `command`.
pub async fn stdio_client(command: std::process::Command, era: Era) -> Client {
    let transport = TokioChildProcess::new(tokio::process::Command::from(command)).expect("it starts");
    ClientConfig::default().serve_with_lifecycle(transport, lifecycle(era)).await.expect("it connects")
}

/// Calls a tool and returns the text of the first block.
pub async fn call(client: &Client, tool: &str, arguments: &Value) -> String {
    let arguments = arguments.as_object().expect("arguments are an object").clone();
    let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let result = client.call_tool(params).await.expect("an answer");
    let result = serde_json::to_value(&result).expect("JSON");
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("text: {result}")).to_owned()
}

fn lifecycle(era: Era) -> ClientLifecycleMode {
    match era {
        Era::Modern => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        },
        Era::Legacy => ClientLifecycleMode::Initialize,
    }
}

/// A server of the SDK, over Streamable HTTP; it ends with this value.
#[derive(Debug)]
pub struct Server {
    /// Its endpoint.
    pub url: String,
    _task: Background,
}

/// Starts the SDK's HTTP server, which speaks only `era`.
pub fn http_server(era: Era) -> Server {
    let listener = listen((Ipv4Addr::LOCALHOST, 0).into());
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let task = Background::run(move || async move {
        let service: StreamableHttpService<Echo, LocalSessionManager> = StreamableHttpService::new(
            move || Ok(Echo { era }),
            std::sync::Arc::default(),
            StreamableHttpServerConfig::default(),
        );
        let router = axum::Router::new().nest_service("/mcp", service);
        let listener = TcpListener::from_std(listener).expect("a socket");
        axum::serve(listener, router).await.expect("it serves");
    });
    Server { url, _task: task }
}

/// Two tools: `echo` gives its arguments back, `era` says which one the server speaks.
#[derive(Debug, Clone)]
pub struct Echo {
    era: Era,
}

impl ServerHandler for Echo {
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        match self.era {
            Era::Modern => Cow::Borrowed(&[ProtocolVersion::V_2026_07_28]),
            Era::Legacy => Cow::Borrowed(&[ProtocolVersion::V_2025_11_25]),
        }
    }

    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("rmcp-echo", "1"))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object"}).as_object().expect("an object").clone();
        let tool = |name: &'static str, about: &'static str| Tool::new(name, about, schema.clone());
        let tools = vec![tool("echo", "gives its arguments back"), tool("era", "which era is spoken")];
        Ok(ListToolsResult { tools, ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = match request.name.as_ref() {
            "echo" => Value::Object(request.arguments.unwrap_or_default()).to_string(),
            "era" => format!("{:?}", self.era),
            other => return Err(ErrorData::invalid_params(format!("unknown tool {other}"), None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

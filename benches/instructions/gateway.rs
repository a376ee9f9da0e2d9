//! The gateway as the program builds it, in this thread.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use futures_util::stream;
use runtime::telemetry;
use switchyard_mcp::program::{Config, serve};

use crate::server::TOKEN;

/// Serves one server, `bench`, described by these lines. Nothing that goes by the clock falls into a run.
#[allow(clippy::disallowed_methods)] // it ends with the runtime
pub async fn start(server: &str) -> anyhow::Result<SocketAddr> {
    // The vault for tokens of logins. JSON is YAML.
    let state = tempfile::tempdir()?;
    let folder = serde_json::json!(state.path());
    let rules: Vec<String> = (1..20).map(|number| format!("bench/other_{number}")).collect();
    let rules = serde_json::json!([rules, vec!["bench/*".to_owned()]].concat());
    let yaml = format!(
        "views:\n  viewed: {{allow: {rules}}}\n  denying: {{servers: [bench], deny: [bench/big]}}\nhealth_check_interval: 3600\nserver:\n  workers: 1\n  state_dir: {folder}\nmcp_servers:\n  bench:\n    {server}\n"
    );
    let variable = |name: &str| match name {
        "TOKEN" => Ok(TOKEN.to_owned()),
        _ => Err(std::env::VarError::NotPresent),
    };
    let config = Config::parse(Path::new("mcp_servers.yaml"), yaml.as_bytes(), &variable)?;
    // As in the program: what a disabled log costs belongs to a call.
    let _log = telemetry::init(&config.server.log).map_err(|error| anyhow::anyhow!("{error}"))?;
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let config = Config { server: config.server.listening_on(address)?, ..config };
    let serving = tokio::spawn(async move {
        let _state = state;
        serve(config, None, stream::pending()).await
    });
    // Not by connecting: the measured connection is to be the only one.
    while TcpListener::bind(address).is_ok() {
        anyhow::ensure!(!serving.is_finished(), "the gateway has ended: {:?}", serving.await);
        tokio::task::yield_now().await;
    }
    Ok(address)
}

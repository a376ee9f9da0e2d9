//! An axum program that embeds Switchyard. It has its own routes, its own authentication and one health
//! endpoint, beside MCP and REST of Switchyard.
//!
//! ```text
//! HOST_KEYS="alice=caller:SECRET bob=reader:SECRET" cargo run --example host -- CONFIG ADDRESS ORDERS
//! ```
//!
//! `/orders` and `/health` belong to the program; `/mcp`, `/sse`, `/api/v1/mcp` and all other paths to
//! Switchyard. The file `ORDERS` represents the database of the program.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, HeaderMap};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use switchyard_mcp::{Config, Principal, Role, Shutdown, Switchyard, set_memory_budget};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Time for running calls after shutdown was requested.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// State shared by the routes of this program.
struct Host {
    keys: Vec<Key>,
    orders: PathBuf,
    switchyard: Arc<Switchyard>,
}

/// A credential of this program, and its principal in Switchyard.
struct Key {
    hash: [u8; 32],
    principal: Principal,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, address, orders] = arguments.as_slice() else { bail!("usage: host CONFIG ADDRESS ORDERS") };
    let keys = keys(&std::env::var("HOST_KEYS").context("HOST_KEYS is not set")?)?;
    tracing_subscriber::fmt().json().with_writer(std::io::stderr).init();
    let config = Config::load(file, |name| std::env::var(name))?;
    set_memory_budget(config.memory_budget());

    // Clients end before the servers do.
    let (clients, switchyard) = (Shutdown::new(), Arc::new(Switchyard::start(config)?));
    let gateway = switchyard.router_for_principals(&clients)?;
    let host = Arc::new(Host { keys, orders: orders.into(), switchyard: Arc::clone(&switchyard) });

    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "the host listens");
    let end = clients.clone();
    let serving = axum::serve(listener, router(host, gateway))
        .with_graceful_shutdown(async move { end.requested().await });
    let mut serving = std::pin::pin!(serving.into_future());
    tokio::select! {
        ended = &mut serving => ended?,
        ended = end_requested() => {
            ended?;
            // Event streams end now; running calls may still finish.
            clients.begin();
            if let Ok(ended) = tokio::time::timeout(DRAIN_TIME, serving).await {
                ended?;
            }
            clients.wait(DRAIN_TIME).await;
        }
    }
    // Child processes end with their process groups.
    switchyard.shutdown().await;
    Ok(())
}

/// The routes of this program, and Switchyard at all other paths.
fn router(host: Arc<Host>, gateway: Router) -> Router {
    Router::new()
        .route("/orders", get(orders))
        .route("/health", get(health))
        .with_state(Arc::clone(&host))
        .fallback_service(gateway)
        .layer(middleware::from_fn_with_state(host, authenticate))
}

/// Authenticates every request. A request without a credential continues without a principal, so only public
/// routes answer it.
async fn authenticate(State(host): State<Arc<Host>>, mut request: Request, next: Next) -> Response {
    match principal(&host.keys, request.headers()) {
        Ok(Some(principal)) => _ = request.extensions_mut().insert(principal),
        Ok(None) => {}
        Err(status) => return status.into_response(),
    }
    next.run(request).await
}

/// The principal of a request; none if it has no credential.
fn principal(keys: &[Key], headers: &HeaderMap) -> Result<Option<Principal>, StatusCode> {
    let Some(header) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let secret = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
    let hash = hash(secret.ok_or(StatusCode::UNAUTHORIZED)?);
    let key = keys.iter().find(|key| bool::from(key.hash.ct_eq(&hash)));
    key.map(|key| Some(key.principal.clone())).ok_or(StatusCode::UNAUTHORIZED)
}

/// A route of this program with the same authentication.
async fn orders(State(host): State<Arc<Host>>, principal: Option<Extension<Principal>>) -> Response {
    let Some(Extension(principal)) = principal else { return StatusCode::UNAUTHORIZED.into_response() };
    match tokio::fs::read_to_string(&host.orders).await {
        Ok(text) => Json(json!({"for": principal.id().as_ref(), "orders": text.lines().collect::<Vec<_>>()}))
            .into_response(),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// The health of this program and of Switchyard. Only authenticated clients see the names of servers.
async fn health(State(host): State<Arc<Host>>, principal: Option<Extension<Principal>>) -> Response {
    let has_orders = tokio::fs::metadata(&host.orders).await.is_ok();
    let servers = host.switchyard.servers();
    let enabled = || servers.iter().filter(|server| server.is_enabled);
    let is_whole = enabled().all(|server| server.is_healthy);
    let named: serde_json::Map<String, Value> =
        enabled().map(|server| (server.name.clone(), server.state.into())).collect();
    let status = match (has_orders, is_whole) {
        (false, _) => "unhealthy",
        (true, false) => "degraded",
        (true, true) => "healthy",
    };
    let mut body = json!({"status": status, "orders": has_orders, "servers": is_whole});
    if principal.is_some() {
        body["servers"] = named.into();
    }
    let code = if has_orders { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(body)).into_response()
}

/// Parses the keys in `text`: `NAME=ROLE:SECRET`, separated by spaces.
fn keys(text: &str) -> anyhow::Result<Vec<Key>> {
    let key = |entry: &str| {
        let (name, rest) = entry.split_once('=')?;
        let (role, secret) = rest.split_once(':')?;
        let principal = Principal::new(format!("host:{name}"), Role::from_name(role)?);
        (!secret.is_empty()).then(|| Key { hash: hash(secret), principal })
    };
    let keys: Option<Vec<Key>> = text.split_whitespace().map(key).collect();
    keys.context("HOST_KEYS must be `NAME=ROLE:SECRET …`, with the role reader, caller or superuser")
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// Resolves with SIGTERM or SIGINT.
async fn end_requested() -> std::io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

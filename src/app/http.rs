//! Builds the HTTP service: the MCP endpoints, the REST API and the login pages behind one guard.
//!
//! Not here: the listener and the order of shutdown (`app`).

use std::sync::Arc;

use super::authorization_server::Opened;
use super::{ShutdownSteps, logins};
use auth::Sealer;
use downstream::admission::Slots;
use downstream::authorization::Endpoints;
use downstream::guard::Guard;
use downstream::http_service::{Admitted, HttpService, RefusedRequests, Shortcut};
use downstream::listening_sockets::SocketCounts;
use downstream::refusal::{AnswerFormat, Refusal};
use downstream::sessions::Sessions;
use downstream::sse;
use downstream::streamable_http::StreamableHttpEndpoint;
use gateway::logins::LoginService;
use gateway::manager::Manager;
use gateway::{Gateway, LoginPages};
use runtime::shutdown::Shutdown;
use runtime::telemetry::metrics::Clients;

/// The document of the REST API, compressed by gzip.
pub(crate) const OPENAPI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));

/// Builds the HTTP service, with the endpoints of the authorization server `tokens` if there is one. Returns it with its
/// sessions, whose calls can be cancelled at shutdown, and the login pages for clients on standard input and output.
pub(super) fn service(
    mut guard: Guard,
    manager: &Arc<Manager>,
    config: &downstream::Config,
    ShutdownSteps { edge: shutdown, leaving }: &ShutdownSteps,
    of_file: admin::Options,
    sockets: SocketCounts,
    tokens: Option<Opened>,
) -> (HttpService, Arc<Sessions>, LoginPages) {
    let sessions = Sessions::new(config.max_sessions, config.session_idle_timeout);
    let sessions = Arc::new(sessions.among(Slots::new(config.max_connections)));
    follow_credentials(&guard, manager, &sessions, shutdown);
    let authenticator = guard.authenticator();
    let sealer = Arc::new(Sealer::from_secrets(&config.seal_keys));
    let logins = logins::context(Arc::clone(manager) as Arc<dyn LoginService>, &sealer, config);
    let is_local = config.listen.ip().is_loopback();
    let links = Arc::clone(&logins.links);
    let elicited = || LoginPages::new(Arc::clone(&links), is_local.then(|| config.listen.to_string()));
    let pages = logins::pages(&guard, config, logins.clone(), tokens.as_ref(), shutdown);
    let grants = tokens.as_ref().map(|tokens| Arc::clone(&tokens.server));
    let endpoints = tokens.map(|tokens| Endpoints::new(tokens.server, &mut guard, &pages));
    let gateway = Gateway::sealed_by(sealer, Arc::clone(manager), shutdown.clone(), Some(elicited()));
    let (of_sessions, max_body) = (|| Arc::clone(&sessions), config.max_body_bytes);
    let endpoint = StreamableHttpEndpoint::new(gateway.clone(), of_sessions(), shutdown.clone(), max_body);
    let url = config.public_url.as_deref();
    let old = sse::SseEndpoint::new(gateway.clone(), of_sessions(), shutdown.clone(), max_body, url);
    let refused = Arc::<RefusedRequests>::default();
    let count_clients = count_clients(of_sessions(), sockets, Arc::clone(&refused));
    let options = admin::Options {
        max_body,
        document: Some(OPENAPI),
        drain: leaving.clone(),
        authenticator: Some(authenticator),
        logins: Some(logins),
        grants,
        count_clients: Some(count_clients),
        gateway: Some(gateway),
        ..of_file
    };
    let api = admin::Api::new(Arc::clone(manager), options);
    let routes = api.clone().router();
    let call = call_shortcut(api, of_sessions());
    let rest = routes.merge(old.router()).merge(pages.router());
    let rest = endpoints.into_iter().fold(rest, |rest, endpoints| rest.merge(endpoints.router()));
    let parts = (vec![(admin::CALL, call)], rest);
    (HttpService::with(guard, Some(endpoint), parts, refused), sessions, elicited())
}

/// Keeps the credentials of clients current, and ends what belongs to one that has ended.
fn follow_credentials(guard: &Guard, manager: &Arc<Manager>, sessions: &Arc<Sessions>, shutdown: &Shutdown) {
    let sweeper = Arc::clone(sessions);
    shutdown.spawn_until_end(async move { sweeper.sweep_forever().await });
    let (authenticator, tasks) = (guard.authenticator(), shutdown.clone());
    let of_holders = Arc::downgrade(manager);
    authenticator.on_other_holder(move |principal| {
        if let Some(manager) = of_holders.upgrade() {
            manager.end_logins_of(principal);
        }
    });
    let (sweeper, mut renewals) = (Arc::clone(sessions), authenticator.renewals());
    shutdown.spawn_until_end(async move { authenticator.keep_keys_current(&tasks).await });
    shutdown.spawn_until_end(async move {
        while renewals.changed().await.is_ok() {
            sweeper.sweep();
        }
    });
}

/// Returns the handler of `POST /call`, which takes a place for each call among those of `sessions`.
fn call_shortcut(api: admin::Api, sessions: Arc<Sessions>) -> Shortcut {
    let api = Arc::new(api);
    Box::new(move |Admitted { head, body, principal, id, .. }| {
        let place = sessions.place_for(principal.as_ref().map_or("", |principal| principal.id()));
        let api = Arc::clone(&api);
        Box::pin(async move {
            match place {
                Ok(_place) => {
                    admin::call(api, admin::Posted { headers: head.headers, body, principal, id }).await
                }
                Err(full) => Refusal::Full { most: full.most }.response(AnswerFormat::Rest, id),
            }
        })
    })
}

/// Returns the function that counts clients for the admin API.
fn count_clients(
    sessions: Arc<Sessions>,
    sockets: SocketCounts,
    refused: Arc<RefusedRequests>,
) -> admin::CountClients {
    Arc::new(move || Clients {
        clients: sessions.clients(),
        sessions: sessions.count(),
        kept_bytes: sessions.kept_bytes(),
        refused: refused.counted(),
        sockets: sockets.open(),
        yielded_sockets: sockets.yielded(),
        failed_handshakes: sockets.failed_handshakes(),
    })
}

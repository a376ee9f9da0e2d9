//! The operations of the API: one row has the path, the required action, the handler and the description.
//!
//! Invariant: routes and document come from the same rows, so the document cannot describe another API. A test makes the
//! document, which is committed and becomes part of the program.
//!
//! Not here: the description of the API as a whole (`openapi`).

use std::sync::Arc;

use axum::routing::MethodRouter;
use axum::{Router, middleware};
use utoipa_axum::{PathItemExt, routes};

use super::{
    Api, PREFIX, approval, authorise, breakers, call, call_questions, catalog, clients, configuration,
    events, grants, health, history, keys, logins, metrics, offers, secrets, server_entries, servers, views,
    why,
};
use auth::Action;
use gateway::manager::live_events::LiveEvents;

/// One operation.
struct Operation {
    /// The prefix of its path.
    prefix: &'static str,
    /// The action that its caller must be allowed; none for a public operation.
    action: Option<Action>,
    path: fn() -> String,
    route: fn() -> MethodRouter<Api>,
    #[cfg(test)]
    description: fn() -> utoipa_axum::router::UtoipaMethodRouter<Api>,
}

macro_rules! operation {
    ($prefix:expr, $action:expr, $($function:tt)+) => {
        Operation {
            prefix: $prefix,
            action: $action,
            path: || routes!(@path [path()] of $($function)+),
            route: || {
                let methods = routes!(@path [methods()] of $($function)+);
                let on = |route: MethodRouter<Api>, method: &utoipa::openapi::HttpMethod| {
                    route.on(method.to_method_filter(), $($function)+)
                };
                methods.iter().fold(MethodRouter::new(), on)
            },
            #[cfg(test)]
            description: || routes!($($function)+),
        }
    };
}

const OPERATIONS: &[Operation] = &[
    operation!(PREFIX, Some(Action::List), servers::list),
    operation!(PREFIX, Some(Action::List), servers::one),
    operation!(PREFIX, Some(Action::List), catalog::of_server),
    operation!(PREFIX, Some(Action::List), catalog::all),
    operation!(PREFIX, Some(Action::List), catalog::one),
    operation!(PREFIX, Some(Action::List), offers::resources),
    operation!(PREFIX, Some(Action::List), offers::templates),
    operation!(PREFIX, Some(Action::List), offers::prompts),
    operation!(PREFIX, Some(Action::Read), offers::read),
    operation!(PREFIX, Some(Action::Read), offers::prompt),
    operation!(PREFIX, Some(Action::List), health::servers),
    operation!(PREFIX, Some(Action::List), breakers::list),
    operation!(PREFIX, Some(Action::List), events::watch),
    operation!(PREFIX, Some(Action::List), history::list),
    operation!(PREFIX, Some(Action::Call), call::call),
    operation!(PREFIX, Some(Action::Call), call_questions::answer),
    operation!(PREFIX, Some(Action::ResetBreaker), breakers::reset),
    operation!(PREFIX, Some(Action::Reconnect), servers::reconnect),
    operation!(PREFIX, Some(Action::Enable), servers::enable),
    operation!(PREFIX, Some(Action::Disable), servers::disable),
    operation!(PREFIX, Some(Action::Forget), servers::forget),
    operation!(PREFIX, Some(Action::ApproveTools), approval::approve),
    operation!(PREFIX, Some(Action::LogIn), logins::start),
    operation!(PREFIX, Some(Action::LogIn), logins::status),
    operation!(PREFIX, Some(Action::LogOut), logins::end),
    operation!(PREFIX, Some(Action::LogIn), logins::list),
    operation!(PREFIX, Some(Action::ListSecrets), secrets::list),
    operation!(PREFIX, Some(Action::SetSecret), secrets::set),
    operation!(PREFIX, Some(Action::RemoveSecret), secrets::remove),
    operation!(PREFIX, Some(Action::Reload), configuration::reload),
    operation!(PREFIX, Some(Action::ReadConfiguration), configuration::show),
    operation!(PREFIX, Some(Action::ReadConfiguration), why::explain),
    operation!(PREFIX, Some(Action::ReadConfiguration), views::list),
    operation!(PREFIX, Some(Action::ReadConfiguration), views::one),
    operation!(PREFIX, Some(Action::AddServer), server_entries::add),
    operation!(PREFIX, Some(Action::EditServer), server_entries::edit),
    operation!(PREFIX, Some(Action::RemoveServer), server_entries::remove),
    operation!(PREFIX, Some(Action::ReadStderr), servers::stderr),
    operation!(PREFIX, Some(Action::ListKeys), keys::list),
    operation!(PREFIX, Some(Action::MakeKey), keys::make),
    operation!(PREFIX, Some(Action::RevokeKey), keys::revoke),
    operation!(PREFIX, Some(Action::ListGrants), grants::list),
    operation!(PREFIX, Some(Action::RevokeGrant), grants::revoke),
    operation!(PREFIX, Some(Action::RevokeGrant), grants::revoke_all),
    operation!(PREFIX, Some(Action::ListClients), clients::list),
    operation!(PREFIX, Some(Action::RemoveClient), clients::remove),
    operation!("", None, health::line),
    operation!("", None, health::summary),
    operation!("", None, health::live),
    operation!("", None, health::ready),
    operation!("", Some(Action::ReadMetrics), metrics::metrics),
];

impl Operation {
    /// The route, with the check of the required action. Methods that the path does not have still get a 405.
    fn guarded(&self, events: &Arc<LiveEvents>) -> MethodRouter<Api> {
        let route = (self.route)();
        match self.action {
            Some(action) => {
                let state = (action, Arc::clone(events));
                route.route_layer(middleware::from_fn_with_state(state, authorise))
            }
            None => route,
        }
    }
}

/// Returns all operations as routes. Watchers of `events` see the actions of operators.
pub(super) fn served(events: &Arc<LiveEvents>) -> Router<Api> {
    let add = |router: Router<Api>, operation: &Operation| {
        router.route(&format!("{}{}", operation.prefix, (operation.path)()), operation.guarded(events))
    };
    OPERATIONS.iter().fold(Router::new(), add)
}

/// Returns all operations as the `OpenAPI` document.
#[cfg(test)]
pub(super) fn described() -> utoipa::openapi::OpenApi {
    use utoipa::OpenApi as _;
    use utoipa_axum::router::OpenApiRouter;

    let under = |prefix: &str| {
        let rows = OPERATIONS.iter().filter(|operation| operation.prefix == prefix);
        rows.fold(OpenApiRouter::new(), |router, operation| router.routes((operation.description)()))
    };
    let mut base = super::openapi_base::base();
    base.merge(super::event_data::Schemas::openapi());
    let all = OpenApiRouter::with_openapi(base).nest(PREFIX, under(PREFIX)).merge(under(""));
    all.into_openapi()
}

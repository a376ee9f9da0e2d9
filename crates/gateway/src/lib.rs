//! The MCP methods of Switchyard: the table that maps each method to a function.
//!
//! The functions know no HTTP, no sessions and no pipes. They answer a request of a [`Caller`], and send
//! notifications to the outlet of the request. Not here: authentication (`downstream`), requests to servers
//! (`manager`).

mod absence;
mod bridge;
pub mod caller;
pub mod era;
pub mod error;
#[cfg(test)]
mod fixture;
mod lifecycle;
mod lists;
mod logging;
mod login_elicitation;
pub mod login_links;
pub mod logins;
pub mod manager;
mod notifications;
mod param_headers;
mod params;
mod private_connections;
mod prompts;
mod questions;
mod references;
mod required_input;
mod resources;
mod skills;
pub mod subscriptions;
mod tasks;
mod tools;
mod unlisted;

use std::ops::Deref;
use std::sync::Arc;

pub use caller::Caller;

use bridge::suspended_calls::SuspendedCalls;
pub use login_elicitation::LoginPages;
use notifications::NotificationRouter;
pub use param_headers::ParamHeaders;
use subscriptions::Feed;
use tasks::TaskIds;

use crate::manager::Manager;
use auth::Sealer;
use json::Raw;
use protocol::feature::{Kind, Lists};
use protocol::{Closed, Era, ErrorCode, ErrorObject, Reply, Request, method};
use runtime::shutdown::Shutdown;
use upstream::{EventSender, ResponseBody};

/// The gateway for all clients: the manager, and the signal that ends long responses. Clones share its state.
#[derive(Clone)]
pub struct Gateway(Arc<Parts>);

/// The parts of a gateway.
pub struct Parts {
    manager: Arc<Manager>,
    shutdown: Shutdown,
    sealer: Arc<Sealer>,
    suspended: Arc<SuspendedCalls>,
    router: Arc<NotificationRouter>,
    task_ids: TaskIds,
    /// The pages at which people log in to servers; none where there is no HTTP listener.
    pages: Option<LoginPages>,
}

/// The action for a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    Initialize,
    Discover,
    Ping,
    List(Kind),
    CallTool,
    GetPrompt,
    ReadResource,
    GetSkill,
    ReadDirectory,
    Complete,
    Listen,
    Subscribe,
    Unsubscribe,
    SetLevel,
    Task(&'static str),
}

/// All methods. `protocol::Version` knows which revision has which.
const TABLE: [(&str, Row); 23] = [
    (method::INITIALIZE, Row::Initialize),
    (method::PING, Row::Ping),
    (method::DISCOVER, Row::Discover),
    (method::TOOLS_LIST, Row::List(Kind::Tools)),
    (method::TOOLS_CALL, Row::CallTool),
    (method::PROMPTS_LIST, Row::List(Kind::Prompts)),
    (method::PROMPTS_GET, Row::GetPrompt),
    (method::RESOURCES_LIST, Row::List(Kind::Resources)),
    (method::RESOURCE_TEMPLATES_LIST, Row::List(Kind::Templates)),
    (method::RESOURCES_READ, Row::ReadResource),
    (method::SKILLS_LIST, Row::List(Kind::Skills)),
    (method::SKILLS_GET, Row::GetSkill),
    (method::DIRECTORY_READ, Row::ReadDirectory),
    (method::COMPLETE, Row::Complete),
    (method::SUBSCRIPTIONS_LISTEN, Row::Listen),
    (method::RESOURCES_SUBSCRIBE, Row::Subscribe),
    (method::RESOURCES_UNSUBSCRIBE, Row::Unsubscribe),
    (method::SET_LEVEL, Row::SetLevel),
    (method::TASKS_GET, Row::Task(method::TASKS_GET)),
    (method::TASKS_RESULT, Row::Task(method::TASKS_RESULT)),
    (method::TASKS_UPDATE, Row::Task(method::TASKS_UPDATE)),
    (method::TASKS_CANCEL, Row::Task(method::TASKS_CANCEL)),
    (method::TASKS_LIST, Row::Task(method::TASKS_LIST)),
];

impl Deref for Gateway {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Gateway {
    /// Makes a gateway over `manager`. `shutdown` ends responses that have no end of their own.
    pub fn new(manager: Arc<Manager>, shutdown: Shutdown) -> Self {
        Self::sealed_by(Arc::new(Sealer::random()), manager, shutdown, None)
    }

    /// A gateway that seals task ids, cursors and `requestState` with `sealer`, and sends people who have to log in to
    /// `pages`.
    pub fn sealed_by(
        sealer: Arc<Sealer>,
        manager: Arc<Manager>,
        shutdown: Shutdown,
        pages: Option<LoginPages>,
    ) -> Self {
        let suspended = SuspendedCalls::new(Arc::clone(&sealer), shutdown.clone());
        let task_ids = TaskIds::new(Arc::clone(&sealer));
        let router = Arc::new(NotificationRouter::default());
        shutdown.spawn_until_end(Arc::clone(&router).run(manager.notices()));
        Self(Arc::new(Parts { manager, shutdown, sealer, suspended, router, task_ids, pages }))
    }

    /// Returns the router of notifications to subscribers.
    pub fn router(&self) -> &Arc<NotificationRouter> {
        &self.router
    }

    /// Returns the manager of the servers.
    pub fn manager(&self) -> &Arc<Manager> {
        &self.manager
    }

    /// Answers one request. A large result that no code here reads may still be arriving. Dropping the future
    /// cancels the request at its server.
    pub async fn handle(
        &self,
        caller: &Caller,
        request: &Request,
        event_sender: &EventSender,
    ) -> ResponseBody {
        let has_logins = self.manager.has_logins();
        if has_logins && login_elicitation::may_repeat(caller, request) {
            // Boxed: it is large, and rarely needed.
            return Box::pin(self.handle_repeated(caller, request, event_sender)).await;
        }
        match self.answer(caller, request, event_sender).await {
            ResponseBody::Buffered(Err(refusal)) if has_logins => {
                ResponseBody::Buffered(self.with_login(caller, request, (refusal, 0)))
            }
            answered => answered,
        }
    }

    async fn answer(&self, caller: &Caller, request: &Request, event_sender: &EventSender) -> ResponseBody {
        let params = request.params.as_ref();
        let row = row(&request.method, caller);
        if self.manager.needs_own_session(caller.viewer()) {
            // Boxed: it is large, and each client waits once.
            Box::pin(self.open_session(caller, row, event_sender)).await;
        }
        let answered = match (logging::check(caller, params), row) {
            (Ok(()), Some(Row::CallTool)) => tools::call(self, caller, params, event_sender).await,
            // Boxed, so that a call of a tool, the most frequent request, does not carry the room for it.
            (Ok(()), Some(row)) => Box::pin(self.do_row(row, caller, request, event_sender))
                .await
                .map(|result| ResponseBody::Buffered(Ok(result))),
            // Boxed: it is large, and rarely needed.
            (Ok(()), None) => Box::pin(unlisted::answer(self, caller, request, event_sender))
                .await
                .unwrap_or_else(|| Err(unknown_method(&request.method, caller))),
            (Err(refusal), _) => Err(refusal),
        };
        answered.unwrap_or_else(|refusal| ResponseBody::Buffered(Err(refusal)))
    }

    /// Answers a list from memory, without waiting, if all its servers were reached. If it returns none, the
    /// request needs [`Gateway::handle`].
    pub fn at_once(&self, caller: &Caller, request: &Request) -> Option<Result<Closed, ErrorObject>> {
        let params = request.params.as_ref();
        let Some(Row::List(kind)) =
            row(&request.method, caller).filter(|row| *row != Row::List(Kind::Skills))
        else {
            return None;
        };
        if self.manager.needs_own_session(caller.viewer()) {
            return None;
        }
        logging::check(caller, params).ok()?;
        lists::at_once(&self.manager, caller, kind, params)
    }

    async fn do_row(
        &self,
        row: Row,
        caller: &Caller,
        request: &Request,
        event_sender: &EventSender,
    ) -> Reply {
        let params = request.params.as_ref();
        match row {
            Row::Initialize => Ok(self.initialize(caller)),
            Row::Discover => lifecycle::discover(self, caller),
            Row::Ping => Ok(Raw::empty_object()),
            Row::List(Kind::Skills) => skills::list(&self.manager, caller, params, event_sender).await,
            Row::GetSkill => skills::get(self, caller, params, event_sender).await,
            Row::ReadDirectory => skills::read_directory(self, caller, params, event_sender).await,
            Row::List(kind) => lists::list(&self.manager, caller, (kind, params), event_sender).await,
            Row::CallTool => {
                collect(tools::call(self, caller, params, event_sender).await?, caller.version.era()).await
            }
            Row::GetPrompt => prompts::get(self, caller, params, event_sender).await,
            Row::ReadResource => resources::read(self, caller, params, event_sender).await,
            Row::Complete => prompts::complete(self, caller, params, event_sender).await,
            Row::Listen => subscriptions::listen(self, caller, (&request.id, params), event_sender).await,
            Row::Subscribe => subscriptions::subscribe(self, caller, params).await,
            Row::Unsubscribe => subscriptions::unsubscribe(caller, params),
            Row::SetLevel => logging::set_level(&self.manager, caller, params).await,
            Row::Task(name) => tasks::handle(self, caller, name, params, event_sender).await,
        }
    }
}

impl Gateway {
    fn initialize(&self, caller: &Caller) -> Raw {
        // Later changes are sent on the session's stream, whenever that is opened.
        if let Some(mailbox) = &caller.mailbox {
            let known = self.manager.revisions(caller.viewer(), &caller.principal);
            mailbox.listen_to(Lists::ALL, known);
            mailbox.set_owes_down_notice(self.manager.seen_by(Some(&caller.affinity)).is_away(&caller.scope));
        }
        lifecycle::initialize(self, caller)
    }

    /// Returns the notifications for a legacy client. A modern one has none, because it uses
    /// `subscriptions/listen`.
    pub fn feed(&self, caller: &Caller) -> Option<Feed> {
        caller.mailbox.as_ref().map(|mailbox| Feed::new(&self.manager, caller, mailbox))
    }
}

/// Returns the whole response to a client of `era`. Waits for the rest of a stream.
pub async fn collect(body: ResponseBody, era: Era) -> Reply {
    let stream = match body {
        ResponseBody::Buffered(reply) => return reply,
        ResponseBody::Streaming(stream) => stream,
    };
    let server = stream.server().unwrap_or_default();
    let result = stream.collect().await;
    result.map_err(|source| {
        error::object(&manager::Error::Upstream { server, tool: None, source, retry_in: None }, era)
    })
}

fn row(name: &str, caller: &Caller) -> Option<Row> {
    let known = TABLE.iter().find(|(method, _)| *method == name).map(|(_, row)| *row);
    known.filter(|_| caller.version.has_method(name))
}

fn unknown_method(name: &str, caller: &Caller) -> ErrorObject {
    let shown: String = name.chars().take(64).collect();
    let text = format!("the method {shown:?} does not exist in protocol revision {}", caller.version);
    error::refusal(ErrorCode::MethodNotFound, caller.version.era(), &text)
}

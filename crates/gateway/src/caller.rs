//! The client of a request, and its protocol revision.

use std::sync::Arc;
use std::time::Duration;

use super::notifications::Mailbox;
use super::param_headers::ParamHeaders;
use super::questions;
use crate::manager::{RoutedRequest, Scope, Viewer};
use auth::Principal;
use json::Raw;
use json::part::Part;
use protocol::feature::{Effect, ToolUi};
use protocol::meta::{self, Sender};
use protocol::{Abilities, ErrorObject, LogLevel, Method, Version};
use runtime::memory::{Account, Charge, ChargeKind, Exhausted};
use runtime::telemetry::RequestId;
use runtime::worker::now;
use tokio::time::Instant;
use upstream::{Affinity, AttemptLog, Call, CallSource, Deadline, ForwardedHeaders, Owner};

/// Smallest description of a client, in bytes, that is charged to the memory budget.
const SMALL_DESCRIPTION: usize = 512;
/// Largest `capabilities` and largest `clientInfo` of a session, in bytes. Each call of the session reads the
/// capabilities.
pub const MAX_DESCRIPTION: usize = 16 * 1024;

/// The client of a request. A legacy session keeps one. In the modern era each request makes a new one.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The principal of the client.
    pub principal: Principal,
    /// The protocol revision of the client.
    pub version: Version,
    /// The client's description of itself. For a request use [`Caller::sender`].
    sender: Sender,
    /// The servers that the client sees.
    pub scope: Scope,
    /// Whether it named an unknown level of log lines.
    pub(super) names_no_level: bool,
    /// Subscriptions and log level of a legacy session. A modern client sends both in each request.
    pub mailbox: Option<Arc<Mailbox>>,
    /// The owner of its calls: the session, or one request.
    pub owner: Owner,
    /// Where its private connections belong: the session, or the principal and the capabilities.
    pub affinity: Affinity,
    /// The request that its calls come from, for the records of calls.
    source: CallSource,
    /// Headers of the request that servers get.
    forwarded: Option<ForwardedHeaders>,
    /// Headers that repeat parameters, if its era and its transport have them.
    pub(super) param_headers: Option<ParamHeaders>,
    /// Whether it reads responses of both eras as their servers sent them, and can answer no server request.
    pub(super) reads_both_eras: bool,
    /// When its call has to end, if the request says so.
    pub(super) deadline: Option<Deadline>,
}

impl Caller {
    /// Makes the caller of a modern request, from its `_meta`.
    pub fn modern(principal: Principal, scope: Scope, params: Option<&Raw>) -> Self {
        let meta = meta::part(params);
        let described = |key| meta?.get(key).filter(|value| value.is_object());
        let member = |key| params.zip(described(key)).map(|(params, value)| params.slice(value));
        let level = meta.and_then(meta::level_in);
        let sender = Sender {
            capabilities: member(meta::CLIENT_CAPABILITIES).unwrap_or_else(Raw::empty_object),
            info: member(meta::CLIENT_INFO).unwrap_or_else(meta::own_info),
            log_level: level.and_then(Result::ok),
        };
        let affinity = Affinity::of_principal(principal.id().clone(), &sender.capabilities);
        let affinity = affinity.through(scope.view.clone());
        Self {
            principal,
            version: Version::NEWEST_MODERN,
            sender,
            scope,
            names_no_level: level.is_some_and(|level| level.is_err()),
            mailbox: None,
            owner: Owner::new(),
            affinity,
            source: CallSource::default(),
            forwarded: None,
            param_headers: None,
            reads_both_eras: false,
            deadline: None,
        }
    }

    /// Makes the caller of `initialize`, with the negotiated revision.
    pub fn legacy(principal: Principal, scope: Scope, params: Option<&Raw>) -> Self {
        let requested: String = params.and_then(|p| p.get_as("protocolVersion")).unwrap_or_default();
        let version = Version::negotiate(&requested);
        // Copied, because a slice would keep the whole buffer of the message as long as the session lives.
        let member = |name| params.and_then(|params| params.get(name)).filter(Raw::is_object);
        let member = |name| member(name).map(|slice| Raw::of(&slice));
        let capabilities = member("capabilities").unwrap_or_else(Raw::empty_object);
        let sender = Sender {
            capabilities: questions::declared(version, capabilities),
            info: member("clientInfo").unwrap_or_else(meta::own_info),
            log_level: None,
        };
        let mailbox = Mailbox::of(principal.id());
        Self {
            principal,
            version,
            sender,
            affinity: Affinity::session().through(scope.view.clone()),
            scope,
            names_no_level: false,
            mailbox: Some(Arc::new(mailbox)),
            owner: Owner::new(),
            source: CallSource::default(),
            forwarded: None,
            param_headers: None,
            reads_both_eras: false,
            deadline: None,
        }
    }

    /// Makes the caller of a REST request. If it has `capabilities`, it can answer the server requests that they declare
    /// while the request runs. It has no session, so its private connections belong to its principal.
    pub fn of_program(principal: Principal, scope: Scope, capabilities: Option<Raw>) -> Self {
        let affinity = Affinity::of_program(principal.id().clone(), capabilities.as_ref());
        let affinity = affinity.through(scope.view.clone());
        let reads_both_eras = capabilities.is_none();
        let (version, log_level) = if reads_both_eras {
            (Version::NEWEST_MODERN, None)
        } else {
            // Server requests of the modern era would end the call.
            (Version::V2025_11_25, Some(LogLevel::Info))
        };
        let capabilities = capabilities.unwrap_or_else(Raw::empty_object);
        let sender = Sender { capabilities, info: meta::own_info(), log_level };
        Self {
            principal,
            version,
            sender,
            scope,
            names_no_level: false,
            mailbox: None,
            owner: Owner::new(),
            affinity,
            source: CallSource::default(),
            forwarded: None,
            param_headers: None,
            reads_both_eras,
            deadline: None,
        }
    }

    /// Charges its principal for the description that a session stores, until the last clone is dropped.
    pub fn charged(self) -> Result<Self, Exhausted> {
        let account = Account::Principal(Arc::clone(self.principal.id()));
        let keep = |text: Raw| match text.bytes().len() {
            ..SMALL_DESCRIPTION => Ok(text),
            _ => text.try_map_bytes(|bytes| Charge::open(account.clone(), ChargeKind::Request).hold(bytes)),
        };
        let Sender { capabilities, info, log_level } = self.sender;
        let sender = Sender { capabilities: keep(capabilities)?, info: keep(info)?, log_level };
        Ok(Self { sender, ..self })
    }

    /// Returns the description for servers, with the current log level.
    pub fn sender(&self) -> Sender {
        Sender { log_level: self.log_level(), ..self.sender.clone() }
    }

    /// Makes a request of this client, under the client's names. Routing sets the effect and the header
    /// parameters. Boxed, because it is large and moves through several futures.
    pub(super) fn call(&self, method: &'static str, params: &Raw) -> Box<Call> {
        Box::new(Call {
            method: Method::constant(method),
            params: Some(params.clone()),
            sender: self.sender(),
            era: self.version.era(),
            wants_progress: meta::has_progress_token(params),
            effect: Effect::Unsafe,
            header_params: Arc::default(),
            owner: self.owner,
            affinity: Some(self.affinity.clone()),
            principal: Some(self.principal.id().clone()),
            forwarded: self.forwarded.clone(),
            terms: None,
            source: self.source,
            attempts: AttemptLog::default(),
        })
    }

    /// Checks the parameters of its calls against `headers`.
    #[must_use]
    pub fn with_headers(self, headers: ParamHeaders) -> Self {
        Self { param_headers: Some(headers), ..self }
    }

    /// Returns the HTTP request that its calls come from, if it is known.
    pub const fn request_id(&self) -> Option<RequestId> {
        self.source.request_id
    }

    /// Checks the header parameters of `request` against the headers that the client sent.
    pub(super) fn check_headers(&self, request: &RoutedRequest) -> Result<(), ErrorObject> {
        self.param_headers.as_ref().map_or(Ok(()), |headers| headers.check(&request.call, &request.given))
    }

    /// Names the request that its calls come from, for the records of calls.
    #[must_use]
    pub fn in_request(self, source: CallSource) -> Self {
        Self { source, ..self }
    }

    /// Has its calls carry `forwarded` on, headers of its request.
    #[must_use]
    pub fn forwarding(self, forwarded: Option<ForwardedHeaders>) -> Self {
        Self { forwarded, ..self }
    }

    /// Ends its call `timeout` from now, whatever the `timeout` of the server is.
    #[must_use]
    pub fn within(self, timeout: Option<Duration>) -> Self {
        Self { deadline: timeout.map(|timeout| Deadline::fixed(now(), timeout)), ..self }
    }

    /// When the time of a request that is handled now began.
    pub(super) fn started(&self) -> Instant {
        self.deadline.map_or_else(now, |deadline| deadline.started)
    }

    /// The whole time of its call, if the request says so.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.at - deadline.started)
    }

    /// Returns the scope and the private connections, for the lookup of names.
    pub const fn viewer(&self) -> Viewer<'_> {
        Viewer { scope: &self.scope, affinity: Some(&self.affinity) }
    }

    /// Returns the capabilities that it declared.
    pub const fn capabilities(&self) -> &Raw {
        &self.sender.capabilities
    }

    /// Whether it shows apps, and keeps the tools for apps alone from its model (`io.modelcontextprotocol/ui`).
    pub(super) fn shows_apps(&self) -> bool {
        let extensions = self.sender.capabilities.part("extensions");
        extensions.is_some_and(|all| all.get(ToolUi::EXTENSION).is_some_and(Part::is_object))
    }

    /// Returns its abilities, which are the server requests that it can answer.
    pub fn abilities(&self) -> Abilities {
        Abilities::of(&self.sender.capabilities)
    }

    /// Returns the least level of log lines that it requested, if any.
    pub fn log_level(&self) -> Option<LogLevel> {
        match &self.mailbox {
            Some(mailbox) => mailbox.log_level(),
            None => self.sender.log_level,
        }
    }

    /// Whether the client gets a log line of `level`. If the client requested a level, it also gets lines
    /// without a known level. If it requested none, it gets no lines in the modern era, and all lines in the
    /// legacy era, where the server decides.
    pub(crate) fn wants_log(&self, level: Option<LogLevel>) -> bool {
        match self.log_level() {
            Some(least) => level.is_none_or(|level| level >= least),
            None => !self.version.is_modern(),
        }
    }
}

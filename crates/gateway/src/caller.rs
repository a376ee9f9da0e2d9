//! Who asks the gateway, and in which revision of the protocol.

use std::sync::Arc;

use super::era::questions;
use super::subscriptions::Mailbox;
use crate::manager::{Scope, Viewer};
use auth::Principal;
use json::Raw;
use protocol::feature::Effect;
use protocol::meta::{self, Sender};
use protocol::{Abilities, LogLevel, Method, Version, lifecycle};
use runtime::memory::{Account, Charge, Exhausted, Kind};
use upstream::{Call, Home, Owner};

/// A session's description of its client is charged from so many bytes on.
const SMALL_DESCRIPTION: usize = 512;
/// The largest `capabilities` and the largest `clientInfo` of a session, in bytes. Each call of the session looks
/// at the capabilities.
pub const MAX_DESCRIPTION: usize = 16 * 1024;

/// The client behind a request. A legacy session keeps one; in the modern era it is made anew from
/// each request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// On whose authority.
    pub principal: Principal,
    /// The revision spoken with it.
    pub version: Version,
    /// What it said of itself. For a request use [`Caller::sender`].
    sender: Sender,
    /// Which servers it sees.
    pub scope: Scope,
    /// Whether it named a level of log lines that is none.
    pub(super) names_no_level: bool,
    /// What a legacy session asked to be told, and its level of log lines. A modern client says
    /// that in each request.
    pub mailbox: Option<Arc<Mailbox>>,
    /// Whose calls these are: the session's, or the one request's.
    pub owner: Owner,
    /// Where its private connections belong: the session, or the principal and the capabilities.
    pub home: Home,
}

impl Caller {
    /// The sender of a modern request, from its `_meta`.
    pub fn modern(principal: Principal, scope: Scope, params: Option<&Raw>) -> Self {
        let meta = meta::part(params);
        let described = |key| meta?.get(key).filter(|value| value.is_object());
        let member = |key| params.zip(described(key)).map(|(params, value)| params.slice(value));
        let level = meta.and_then(meta::level_in);
        let sender = Sender {
            capabilities: member(meta::CLIENT_CAPABILITIES).unwrap_or_else(Raw::empty_object),
            info: member(meta::CLIENT_INFO).unwrap_or_else(lifecycle::own_info),
            log_level: level.and_then(Result::ok),
        };
        let home = Home::of_principal(principal.id().clone(), &sender.capabilities);
        Self {
            principal,
            version: Version::NEWEST_MODERN,
            sender,
            scope,
            names_no_level: level.is_some_and(|level| level.is_err()),
            mailbox: None,
            owner: Owner::new(),
            home,
        }
    }

    /// The sender of `initialize`, with the revision that answers it.
    pub fn legacy(principal: Principal, scope: Scope, params: Option<&Raw>) -> Self {
        let requested: String = params.and_then(|p| p.get_as("protocolVersion")).unwrap_or_default();
        let version = Version::negotiate(&requested);
        // Copied: a slice would keep the whole buffer in which the message came, for as long as the
        // session lives.
        let member = |name| params.and_then(|params| params.get(name)).filter(Raw::is_object);
        let member = |name| member(name).map(|slice| Raw::of(&slice));
        let capabilities = member("capabilities").unwrap_or_else(Raw::empty_object);
        let sender = Sender {
            capabilities: questions::declared(version, capabilities),
            info: member("clientInfo").unwrap_or_else(lifecycle::own_info),
            log_level: None,
        };
        let mailbox = Mailbox::of(principal.id());
        Self {
            principal,
            version,
            sender,
            scope,
            names_no_level: false,
            mailbox: Some(Arc::new(mailbox)),
            owner: Owner::new(),
            home: Home::session(),
        }
    }

    /// Charges its principal for what a session keeps of its client's description, as long as anything of it lives.
    pub fn charged(self) -> Result<Self, Exhausted> {
        let account = Account::Principal(Arc::clone(self.principal.id()));
        let keep = |text: Raw| match text.bytes().len() {
            ..SMALL_DESCRIPTION => Ok(text),
            _ => text.kept(|bytes| Charge::open(account.clone(), Kind::Request).hold(bytes)),
        };
        let Sender { capabilities, info, log_level } = self.sender;
        let sender = Sender { capabilities: keep(capabilities)?, info: keep(info)?, log_level };
        Ok(Self { sender, ..self })
    }

    /// What servers may know of it, as of now.
    pub fn sender(&self) -> Sender {
        Sender { log_level: self.log_level(), ..self.sender.clone() }
    }

    /// A request of it, under the names that it uses itself. Routing sets the effect and the header parameters. Boxed,
    /// because it is large and moves through several futures.
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
            home: Some(self.home.clone()),
            principal: Some(self.principal.id().clone()),
            terms: None,
        })
    }

    /// Its scope and its own connections, in which names are looked up.
    pub const fn viewer(&self) -> Viewer<'_> {
        Viewer { scope: &self.scope, home: Some(&self.home) }
    }

    /// The capabilities that it declared.
    pub const fn capabilities(&self) -> &Raw {
        &self.sender.capabilities
    }

    /// What it can be asked.
    pub fn abilities(&self) -> Abilities {
        Abilities::of(&self.sender.capabilities)
    }

    /// The least level of log lines it wants; none: it did not say.
    pub fn log_level(&self) -> Option<LogLevel> {
        match &self.mailbox {
            Some(mailbox) => mailbox.log_level(),
            None => self.sender.log_level,
        }
    }

    /// Whether it wants a log line of `level`; of a line without a known level that it wants any.
    /// Who never said anything gets none in the modern era and all of them in the legacy one, where
    /// that is for servers to decide.
    pub fn wants_log(&self, level: Option<LogLevel>) -> bool {
        match self.log_level() {
            Some(least) => level.is_none_or(|level| level >= least),
            None => !self.version.is_modern(),
        }
    }
}

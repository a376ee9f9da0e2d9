//! The dialect in which a server is called: the era, and the abilities of the client.
//!
//! A server that speaks both eras is called in the era of the client, because then nothing has to be
//! translated. For a child process that is a process for each era, started when needed.
//! Modern requests declare the capabilities of their client themselves, so there is one modern dialect. A
//! legacy connection declares them once for all its calls, so there is one dialect for each set of abilities.
//! Requests of Switchyard use the base dialect. That is the modern era if the server speaks it, and otherwise
//! the legacy era with all abilities except roots.
//!
//! Not here: connections (`pool`), and how an era is detected (`transport`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::call::Call;
use super::call_events::Owner;
use crate::session_affinity::Affinity;
use json::Raw;
use protocol::meta::{self, Sender};
use protocol::{Abilities, Era};

/// The requested dialect of a connection. If the server does not speak its era, the other era is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    /// The requested era.
    pub era: Era,
    /// Capabilities that a legacy `initialize` declares.
    pub capabilities: Raw,
    /// The `clientInfo` of a legacy `initialize`.
    pub info: Raw,
    /// The one client of a private connection. Every server request on it is meant for that client.
    pub client: Option<Affinity>,
    /// The principal whose credential it uses, if each principal has its own.
    pub principal: Option<Arc<str>>,
}

impl Dialect {
    /// The client as a legacy `initialize` describes it.
    pub(super) fn sender(&self) -> Sender {
        Sender { capabilities: self.capabilities.clone(), info: self.info.clone(), log_level: None }
    }

    /// The dialect of Switchyard's own requests, such as discovery and health checks.
    pub fn base() -> Self {
        Key::BASE.dialect(None)
    }
}

/// The one client of private connections.
#[derive(Clone)]
pub(super) struct Private {
    pub affinity: Affinity,
    /// Capabilities that the client declared.
    pub capabilities: Raw,
    /// Its description of itself.
    pub info: Raw,
}

/// The purpose of a requested connection.
#[derive(Clone, Copy)]
pub(super) enum PoolRequest<'a> {
    /// A request of Switchyard.
    Own,
    /// This call.
    Of(&'a Call),
}

impl<'a> PoolRequest<'a> {
    /// Returns the purpose of `call`.
    pub(super) fn of(call: &'a Call) -> Self {
        if call.owner == Owner::GATEWAY { Self::Own } else { Self::Of(call) }
    }

    /// Returns the client for private connections, if it has any.
    pub(super) fn private(self) -> Option<Private> {
        let Self::Of(call) = self else { return None };
        let (capabilities, info) = (call.sender.capabilities.detached(), call.sender.info.detached());
        Some(Private { affinity: call.affinity.clone()?, capabilities, info })
    }

    /// Returns where the private connections of the client belong.
    pub(super) const fn affinity(self) -> Option<&'a Affinity> {
        if let Self::Of(call) = self { call.affinity.as_ref() } else { None }
    }

    /// Returns the principal of the call. Switchyard and programs have none.
    pub(super) fn principal(self) -> Option<&'a Arc<str>> {
        if let Self::Of(call) = self { call.principal.as_ref() } else { None }
    }
}

/// The key that distinguishes groups of connections to one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub era: Era,
    /// Constant in the modern era and on private connections.
    pub abilities: Abilities,
    /// The client of a private connection.
    pub affinity: Option<u64>,
}

impl Key {
    pub(super) const BASE: Self =
        Self { era: Era::Modern, abilities: Abilities::WITHOUT_ROOTS, affinity: None };

    /// Returns this key in `era`, with the abilities that the era needs.
    pub(super) const fn in_era(self, era: Era) -> Self {
        match era {
            Era::Modern => Self { affinity: self.affinity, ..Self::BASE },
            Era::Legacy => Self { era, ..self },
        }
    }

    /// Whether both keys are equal except for the client.
    pub(super) fn equals_except_client(self, other: Self) -> bool {
        self == Self { affinity: self.affinity, ..other }
    }

    /// Returns the dialect. `private` is the client of a private connection.
    pub(super) fn dialect(self, private: Option<&Private>) -> Dialect {
        let capabilities = private.map(|private| private.capabilities.clone());
        Dialect {
            era: self.era,
            capabilities: capabilities.unwrap_or_else(|| self.abilities.capabilities()),
            info: private.map_or_else(meta::own_info, |private| private.info.clone()),
            client: private.map(|private| private.affinity.clone()),
            principal: None,
        }
    }
}

/// The eras that a server speaks, as far as known. This is read on every call, so it takes no lock.
#[derive(Debug, Default)]
pub(super) struct Eras {
    modern: AtomicU8,
    legacy: AtomicU8,
    /// The era that the operator configured. Nothing is detected then.
    pin: Option<Era>,
}

const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

impl Eras {
    /// Makes the state for `pin`, if the operator configured an era.
    pub(super) fn pinned(pin: Option<Era>) -> Self {
        let eras = Self::default();
        for era in [Era::Modern, Era::Legacy] {
            if let Some(pin) = pin {
                eras.record(era, era == pin);
            }
        }
        Self { pin, ..eras }
    }

    /// Returns the era that the operator configured.
    pub(super) const fn pin(&self) -> Option<Era> {
        self.pin
    }

    /// Whether the server speaks `era`, or none while that is unknown.
    pub(super) fn speaks(&self, era: Era) -> Option<bool> {
        match self.of(era).load(Ordering::Relaxed) {
            YES => Some(true),
            NO => Some(false),
            _ => None,
        }
    }

    /// Records whether the server speaks `era`.
    pub(super) fn record(&self, era: Era, speaks: bool) {
        if self.pin.is_none() {
            self.of(era).store(if speaks { YES } else { NO }, Ordering::Relaxed);
        }
    }

    /// Forgets the detected eras.
    pub(super) fn forget(&self) {
        if self.pin.is_none() {
            self.modern.store(UNKNOWN, Ordering::Relaxed);
            self.legacy.store(UNKNOWN, Ordering::Relaxed);
        }
    }

    const fn of(&self, era: Era) -> &AtomicU8 {
        match era {
            Era::Modern => &self.modern,
            Era::Legacy => &self.legacy,
        }
    }
}

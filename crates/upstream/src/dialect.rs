//! In which dialect a server is spoken to: the era, and what a client can be asked.
//!
//! A server that speaks both eras is spoken to in the era of the client, because then nothing has to be translated.
//! A process that all clients share is spoken to in the modern era alone, so that there is one of it. Modern requests
//! declare their client's capabilities themselves, so there is one modern dialect. A legacy connection declares them
//! once for all its calls, so there is one dialect for each set of abilities. Requests of our own use the base
//! dialect: the modern era if there is one, and everything but roots where it has to be declared.
//!
//! Not here: connections (`pool`), and how an era is found out (`transport`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::connection::{Call, Owner};
use crate::session_affinity::Home;
use json::Raw;
use protocol::{Abilities, Era};

/// How a connection is to be spoken. Who connects falls back to the other era where the server does
/// not speak this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    /// The era that is wanted.
    pub era: Era,
    /// What a legacy `initialize` declares.
    pub capabilities: Raw,
    /// The one client that it is for: whatever the server asks there is meant for that client.
    pub client: Option<Home>,
    /// The principal whose credential it uses, if each principal has its own.
    pub principal: Option<Arc<str>>,
}

impl Dialect {
    /// That of discovery, health checks and whatever else is ours.
    pub fn base() -> Self {
        Key::BASE.dialect(None)
    }
}

/// The one client of private connections.
#[derive(Clone)]
pub(super) struct Private {
    pub home: Home,
    /// What it declared.
    pub capabilities: Raw,
}

/// For whom a connection is wanted.
#[derive(Clone, Copy)]
pub(super) enum PoolRequest<'a> {
    /// For ourselves.
    Own,
    /// For this call.
    Of(&'a Call),
}

impl<'a> PoolRequest<'a> {
    /// For `call`, whosever it is.
    pub(super) fn of(call: &'a Call) -> Self {
        if call.owner == Owner::GATEWAY { Self::Own } else { Self::Of(call) }
    }

    /// The client, for connections of its own.
    pub(super) fn private(self) -> Option<Private> {
        let Self::Of(call) = self else { return None };
        Some(Private { home: call.home.clone()?, capabilities: call.sender.capabilities.detached() })
    }

    /// On whose behalf the connection is wanted; none for ourselves and for programs.
    pub(super) fn principal(self) -> Option<&'a Arc<str>> {
        if let Self::Of(call) = self { call.principal.as_ref() } else { None }
    }

    /// Capabilities that its client declared; none for ourselves.
    pub(super) const fn capabilities(self) -> Option<&'a Raw> {
        if let Self::Of(call) = self { Some(&call.sender.capabilities) } else { None }
    }

    /// The owner of the calls on the connection; none for our own, which are no reason to wait.
    pub(super) fn owner(self) -> Option<Owner> {
        if let Self::Of(call) = self {
            Some(call.owner).filter(|owner| *owner != Owner::GATEWAY)
        } else {
            None
        }
    }
}

/// What tells the connections to one server apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub era: Era,
    /// In the modern era, and on private connections, always the same.
    pub abilities: Abilities,
    /// Which client's it is, if it is private.
    pub home: Option<u64>,
}

impl Key {
    pub(super) const BASE: Self = Self { era: Era::Modern, abilities: Abilities::WITHOUT_ROOTS, home: None };

    /// The same in `era`, with what that declares.
    pub(super) const fn in_era(self, era: Era) -> Self {
        match era {
            Era::Modern => Self { home: self.home, ..Self::BASE },
            Era::Legacy => Self { era, ..self },
        }
    }

    /// Whether it is the same but for the client.
    pub(super) fn is_spoken_like(self, other: Self) -> bool {
        self == Self { home: self.home, ..other }
    }

    /// How it is connected; `private` is the one client that it is for.
    pub(super) fn dialect(self, private: Option<&Private>) -> Dialect {
        let capabilities = private.map(|private| private.capabilities.clone());
        Dialect {
            era: self.era,
            capabilities: capabilities.unwrap_or_else(|| self.abilities.capabilities()),
            client: private.map(|private| private.home.clone()),
            principal: None,
        }
    }
}

/// Which eras a server speaks, as far as it is known. Read on every call, so it takes no lock.
#[derive(Debug, Default)]
pub(super) struct Eras {
    modern: AtomicU8,
    legacy: AtomicU8,
    /// The era that the operator chose; then nothing is found out.
    pin: Option<Era>,
}

const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

impl Eras {
    /// Those of a server with which only `pin` is spoken, if the operator chose one.
    pub(super) fn pinned(pin: Option<Era>) -> Self {
        let eras = Self::default();
        for era in [Era::Modern, Era::Legacy] {
            if let Some(pin) = pin {
                eras.note(era, era == pin);
            }
        }
        Self { pin, ..eras }
    }

    /// The era that the operator chose.
    pub(super) const fn pin(&self) -> Option<Era> {
        self.pin
    }

    /// Whether the server speaks `era`; none while that is unknown.
    pub(super) fn speaks(&self, era: Era) -> Option<bool> {
        match self.of(era).load(Ordering::Relaxed) {
            YES => Some(true),
            NO => Some(false),
            _ => None,
        }
    }

    /// Notes what was found out.
    pub(super) fn note(&self, era: Era, speaks: bool) {
        if self.pin.is_none() {
            self.of(era).store(if speaks { YES } else { NO }, Ordering::Relaxed);
        }
    }

    /// Nothing is known any more.
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

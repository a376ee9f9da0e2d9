//! Which definition of each tool is trusted: the one that the registry file names, or the first that its server
//! showed, or one that an operator approved since; and which tools are another thing by now.
//!
//! A server that was looked at once can say something else tomorrow, and what it says of its tools is what
//! makes a model call them. Invariants: a tool is compared by its own name and by what its server wrote,
//! before anything of ours; a new tool and one that is gone are no change, and one that came back is
//! compared with what it was; what is remembered of a server is bounded, and a tool beyond that is not
//! trusted.
//!
//! Not here: what becomes of a tool that is not trusted (`catalog`, by `tools.on_change`), who may approve.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::error::{Error, Named};
use json::{Raw, canonical};
use protocol::feature::Tool;
use runtime::hex::hex;
use runtime::telemetry::{audit, untrusted};
use upstream::config::{OnChange, Tools};

/// Tools of one server whose definitions are remembered, at most: as many as one list may have.
const MOST: usize = 10_000;
/// The members of a definition that a change is told by.
const MEMBERS: [&str; 8] =
    ["title", "description", "inputSchema", "outputSchema", "annotations", "icons", "execution", "_meta"];
/// What any other member is told by.
const OTHERS: &str = "other members";
/// What a change is told by where the trusted definition was never seen, only its hash.
const WHOLE: &str = "definition";
/// Changes of one list that have a line of their own in the log.
const TOLD: usize = 20;

/// SHA-256.
type Hash = [u8; 32];

/// One definition, as far as it is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seal {
    whole: Hash,
    /// The beginnings of the hashes of [`MEMBERS`], and of all others.
    members: [[u8; 16]; MEMBERS.len() + 1],
}

/// A tool whose definition is not the trusted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What its server calls it.
    pub tool: String,
    /// The members that are not what they were; none where no definition of it is remembered.
    pub changed: Vec<&'static str>,
    /// The definition as its server writes it now.
    pub definition: Raw,
    trusted: Option<Hash>,
    now: Seal,
}

/// What is trusted of one server, and what is not.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// By the hash of a tool's name, which may be long.
    known: HashMap<Hash, Seal>,
    changes: BTreeMap<String, Arc<Change>>,
    holds: bool,
}

/// What an operator approves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Approval<'a> {
    /// One tool, as its server calls it; none: all that changed.
    pub tool: Option<&'a str>,
    /// The definition that was looked at, by its SHA-256 in hexadecimal digits; none: whatever it is now.
    pub sha256: Option<&'a str>,
}

impl Seal {
    /// `whole` is the hash of all of `definition`.
    fn of(definition: &Raw, whole: Hash) -> Self {
        let mut hashes: [Sha256; MEMBERS.len() + 1] = Default::default();
        let mut members: Vec<(Cow<'_, str>, Raw)> = definition.members().collect();
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, value) in &members {
            let at = MEMBERS.iter().position(|member| member == name).unwrap_or(MEMBERS.len());
            let value = canonical::text(value);
            // With lengths, or what stands twice could be read in two ways.
            for piece in [name.as_bytes(), &value] {
                hashes[at].update(piece.len().to_le_bytes());
                hashes[at].update(piece);
            }
        }
        let short = |hash: Sha256| {
            let hash: Hash = hash.finalize().into();
            std::array::from_fn(|at| hash[at])
        };
        Self { whole, members: hashes.map(short) }
    }

    /// The members in which it differs from `before`.
    fn differs(&self, before: &Self) -> Vec<&'static str> {
        let names = MEMBERS.into_iter().chain([OTHERS]);
        let both = self.members.iter().zip(&before.members);
        names.zip(both).filter(|(_, (now, before))| now != before).map(|(name, _)| name).collect()
    }
}

impl Change {
    fn of(tool: &Tool, now: Seal, known: Option<&Seal>, named: Option<Hash>) -> Self {
        Self {
            tool: tool.name.clone(),
            changed: match (known, named) {
                (Some(known), _) => now.differs(known),
                (None, Some(_)) => vec![WHOLE],
                (None, None) => Vec::new(),
            },
            definition: tool.definition.clone(),
            trusted: known.map(|known| known.whole).or(named),
            now,
        }
    }

    /// The SHA-256 of the definition as its server writes it now, in hexadecimal digits.
    pub fn sha256(&self) -> String {
        hex(&self.now.whole)
    }

    /// The same of the trusted one.
    pub fn trusted_sha256(&self) -> Option<String> {
        self.trusted.map(|hash| hex(&hash))
    }

    /// Why it is not called.
    pub(super) fn refusal(&self, server: &Arc<str>) -> Error {
        Error::ToolChanged {
            server: Arc::clone(server),
            tool: self.tool.clone(),
            changed: self.changed.clone(),
        }
    }
}

impl Trust {
    /// Those that changed, in the order of their names.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = &Change> {
        self.changes.values().map(AsRef::as_ref)
    }

    /// Whether those are held back.
    pub const fn holds(&self) -> bool {
        self.holds
    }

    /// What changed of `tool`, if it is to be held back for that.
    pub(super) fn held(&self, tool: &str) -> Option<&Arc<Change>> {
        self.changes.get(tool).filter(|_| self.holds)
    }

    /// The SHA-256 of the definition that its server shows of `tool` now, in hexadecimal digits; none where it is
    /// not remembered.
    pub fn sha256(&self, tool: &str) -> Option<String> {
        let changed = self.changes.get(tool).map(|change| change.now);
        let now = changed.or_else(|| self.known.get(&name_hash(tool)).copied())?;
        Some(hex(&now.whole))
    }

    /// The same after the server was found to have `tools`. What was never seen is trusted, unless the registry
    /// file names another definition of it.
    pub(super) fn reviewed(&self, tools: &[Tool], choice: &Tools) -> Self {
        let policy = choice.on_change;
        if policy == OnChange::Allow {
            return Self::default();
        }
        let mut next =
            Self { known: self.known.clone(), changes: BTreeMap::new(), holds: policy == OnChange::Block };
        for tool in tools {
            let (name, whole) = (name_hash(&tool.name), whole_hash(&tool.definition));
            let (known, named) = (next.known.get(&name), choice.trusted.get(&tool.name).copied());
            if known.is_some_and(|known| known.whole == whole) {
                continue;
            }
            let now = Seal::of(&tool.definition, whole);
            let is_trusted = named.map_or(known.is_none(), |named| named == whole);
            if is_trusted && (known.is_some() || next.known.len() < MOST) {
                next.known.insert(name, now);
                continue;
            }
            let change = Change::of(tool, now, known, named);
            next.changes.insert(tool.name.clone(), Arc::new(change));
        }
        next
    }

    /// The same after an operator approved what `server` has now, of its `tools`.
    pub(super) fn approved(
        &self,
        approval: Approval<'_>,
        server: &Arc<str>,
        tools: &[Tool],
    ) -> Result<Self, Error> {
        let mut next = self.clone();
        for change in self.chosen(approval, server, tools)? {
            let name = name_hash(&change.tool);
            if next.known.len() >= MOST && !next.known.contains_key(&name) {
                next.forget_but(tools);
            }
            next.known.insert(name, change.now);
            next.changes.remove(&change.tool);
            let (tool, definition) = (untrusted(&change.tool), change.sha256());
            tracing::info!(%server, %tool, definition, "a tool's definition was approved");
        }
        Ok(next)
    }

    /// The changes that are approved. What is trusted already need not be any more.
    fn chosen(
        &self,
        approval: Approval<'_>,
        server: &Arc<str>,
        tools: &[Tool],
    ) -> Result<Vec<&Change>, Error> {
        let Some(name) = approval.tool else { return Ok(self.changes().collect()) };
        let names = || tools.iter().map(|tool| tool.name.as_str());
        let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
            return Err(Error::name_not_found(Named::Tool, name, Some(server), names()));
        };
        let change = self.changes.get(name);
        let now = hex(&change.map_or_else(|| whole_hash(&tool.definition), |change| change.now.whole));
        if approval.sha256.is_some_and(|wanted| !wanted.eq_ignore_ascii_case(&now)) {
            return Err(Error::OtherDefinition { server: Arc::clone(server), tool: name.to_owned(), now });
        }
        Ok(change.map(AsRef::as_ref).into_iter().collect())
    }

    /// Makes room: of tools that the server has no more nothing is remembered.
    fn forget_but(&mut self, tools: &[Tool]) {
        let there: HashSet<Hash> = tools.iter().map(|tool| name_hash(&tool.name)).collect();
        self.known.retain(|name, _| there.contains(name));
    }

    /// Logs for operators what changed since `before`. If the audit log is full, this fails and is to be repeated.
    pub(super) fn tell(&self, server: &str, before: Option<&Self>) -> Result<(), audit::Full> {
        let was_told = |change: &Change| {
            let told = before.and_then(|before| before.changes.get(&change.tool));
            told.is_some_and(|told| told.now == change.now) && before.is_some_and(|b| b.holds == self.holds)
        };
        let outcome = if self.holds { "held_back" } else { "passed" };
        let mut news = self.changes().filter(|change| !was_told(change));
        for change in news.by_ref().take(TOLD) {
            audit::tool_changed(server, &change.tool, (&change.changed, &change.sha256()), outcome)?;
        }
        let more = news.count();
        if more > 0 {
            tracing::warn!(server, more, outcome, "more definitions of tools changed than are told here");
        }
        Ok(())
    }
}

/// The SHA-256 of a definition in its one spelling, in hexadecimal digits.
pub(super) fn definition_sha256(definition: &Raw) -> String {
    hex(&whole_hash(definition))
}

/// Of a definition in its one spelling.
fn whole_hash(definition: &Raw) -> Hash {
    Sha256::digest(canonical::text(definition)).into()
}

fn name_hash(name: &str) -> Hash {
    Sha256::digest(name).into()
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;

//! Finds tools and skills whose definition changed since it was trusted. A definition is trusted if the configuration file
//! names it, if it was the first one seen, or if an operator approved it.
//!
//! A server can change the description of a tool later, and descriptions make a model call tools. Invariants: a
//! tool is compared by its own name and by the definition that its server wrote, before Switchyard changes it. New
//! and removed tools are not changes, and a tool that returns is compared with its former definition. The number
//! of remembered tools of a server is limited, and a tool beyond that limit is not trusted.
//!
//! A skill is compared like a tool, under its URI in place of a name: its entry has the digests of its files.
//!
//! Not here: the digests that are compared (`digest`), how an untrusted tool is treated (`catalog`, by
//! `tools.on_change`), who may approve.

mod digest;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use self::digest::{DefinitionDigest, RECORD, Sha256Hash, name_hash, whole_hash};
use super::error::{Error, ItemKind};
use json::Raw;
use protocol::skill;
use runtime::telemetry::{audit, untrusted};
use upstream::config::{OnChange, Tools};

/// Limit of remembered definitions of one server: the limit of one list of tools.
const MOST: usize = 10_000;
/// Name that a change is reported under if only the hash of the trusted definition is known.
const WHOLE: &str = "definition";
/// Limit of the trusted definitions of one server that are kept to be compared, in bytes.
const MOST_BEFORE: usize = 256 * 1024;
/// Limit of the changed tools of one server that are kept from offers to single clients.
const MOST_ELSEWHERE: usize = 1_000;
/// Number of changes of one list that are logged one by one.
const TOLD: usize = 20;

/// A tool whose definition is not the trusted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The tool's name on its server.
    pub tool: String,
    /// The members that changed; none if no trusted definition is remembered.
    pub changed: Vec<&'static str>,
    /// The definition as its server writes it now.
    pub definition: Raw,
    /// The trusted definition, if it was seen while Switchyard runs and there was room for it.
    pub trusted_definition: Option<Raw>,
    trusted: Option<Sha256Hash>,
    now: DefinitionDigest,
}

/// Trusted definitions of one server, and the tools that differ from them.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// By the hash of a tool's name, which may be long.
    known: Arc<HashMap<Sha256Hash, DefinitionDigest>>,
    /// The changed tools of this offer.
    changes: BTreeMap<String, Arc<Change>>,
    /// The changed tools of offers to single clients, as they were seen last. Here they block nothing.
    elsewhere: BTreeMap<String, Arc<Change>>,
    holds: bool,
}

/// The changes that an operator approves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Approval<'a> {
    /// One tool, by its name on the server; none: all changed tools.
    pub tool: Option<&'a str>,
    /// The SHA-256 of the approved definition, in hexadecimal digits; none: the current definition.
    pub sha256: Option<&'a str>,
    /// The server that had the bare name of the tool before. With `sha256`, the name moves only if it is this one.
    pub previous_owner: Option<&'a str>,
}

impl Change {
    fn of(
        (name, definition): (&str, &Raw),
        now: DefinitionDigest,
        known: Option<&DefinitionDigest>,
        named: Option<Sha256Hash>,
    ) -> Self {
        Self {
            tool: name.to_owned(),
            changed: match (known, named) {
                (Some(known), _) => now.differs(known),
                (None, Some(_)) => vec![WHOLE],
                (None, None) => Vec::new(),
            },
            definition: definition.clone(),
            trusted_definition: None,
            trusted: known.map(|known| known.whole).or(named),
            now,
        }
    }

    /// The SHA-256 of the definition as its server writes it now, in hexadecimal digits.
    pub fn sha256(&self) -> String {
        hex::encode(self.now.whole)
    }

    /// The SHA-256 of the trusted definition, in hexadecimal digits.
    pub fn trusted_sha256(&self) -> Option<String> {
        self.trusted.map(hex::encode)
    }

    /// Returns the error of a call of this tool.
    pub(super) fn refusal(&self, server: &Arc<str>) -> Error {
        Error::ToolChanged {
            server: Arc::clone(server),
            tool: self.tool.clone(),
            changed: self.changed.clone(),
        }
    }
}

impl Trust {
    /// Returns the changed tools, also those of offers to single clients.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        let elsewhere = self.elsewhere.iter().filter(|(tool, _)| !self.changes.contains_key(*tool));
        self.changes.values().chain(elsewhere.map(|(_, change)| change)).map(AsRef::as_ref)
    }

    fn change(&self, tool: &str) -> Option<&Arc<Change>> {
        self.changes.get(tool).or_else(|| self.elsewhere.get(tool))
    }

    /// Returns what is known of all offers of the server, after the review `own` of an offer to a single client. `before`
    /// is the review of its former offer: what changed there and no more is no change any longer. `None` if that is
    /// nothing new.
    pub(super) fn learned_from(&self, own: &Self, before: Option<&Self>) -> Option<Self> {
        let mut elsewhere = self.elsewhere.clone();
        let gone = before.into_iter().flat_map(|before| before.changes.keys());
        for tool in gone.filter(|tool| !own.changes.contains_key(*tool)) {
            elsewhere.remove(tool);
        }
        let new = own.changes.iter().filter(|(tool, change)| self.changes.get(*tool) != Some(*change));
        for (tool, change) in new {
            if elsewhere.len() < MOST_ELSEWHERE || elsewhere.contains_key(tool) {
                elsewhere.insert(tool.clone(), Arc::clone(change));
            }
        }
        let is_new = self.known.len() != own.known.len() || elsewhere != self.elsewhere;
        is_new.then(|| Self { known: Arc::clone(&own.known), elsewhere, ..self.clone() })
    }

    /// Whether changed tools are blocked.
    pub const fn holds(&self) -> bool {
        self.holds
    }

    /// Returns the change of `tool`, if the tool is blocked for it.
    pub(super) fn held(&self, tool: &str) -> Option<&Arc<Change>> {
        self.changes.get(tool).filter(|_| self.holds)
    }

    /// The SHA-256 of the current definition of `tool`, in hexadecimal digits; none if it is not remembered.
    pub fn sha256(&self, tool: &str) -> Option<String> {
        let changed = self.change(tool).map(|change| change.now);
        let now = changed.or_else(|| self.known.get(&name_hash(tool)).copied())?;
        Some(hex::encode(now.whole))
    }

    /// Returns the change of the skill in whose directory `uri` is, if the skill is blocked for it.
    pub(super) fn held_around(&self, uri: &str) -> Option<&Arc<Change>> {
        if !self.holds || self.changes.is_empty() {
            return None;
        }
        // A directory can be that of a skill itself.
        let own = std::iter::once(format!("{uri}/"));
        own.chain([uri.to_owned()]).find_map(|uri| skill::around(&uri).find_map(|skill| self.held(&skill)))
    }

    /// Whether `definition`, which the server sent outside of its list, is not another one than the trusted one.
    pub(super) fn allows(&self, name: &str, definition: &Raw) -> bool {
        let known = self.known.get(&name_hash(name)).filter(|_| self.holds);
        known.is_none_or(|known| known.whole == whole_hash(definition))
    }

    /// Compares the current definitions of the server with the trusted ones. A tool that was never seen
    /// becomes trusted, unless the configuration file names another definition of it.
    pub(super) fn reviewed<'a>(
        &self,
        offered: impl Iterator<Item = (&'a str, &'a Raw)>,
        choice: &Tools,
    ) -> Self {
        let policy = choice.on_change;
        if policy == OnChange::Allow {
            return Self::default();
        }
        let mut next = Self { changes: BTreeMap::new(), holds: policy == OnChange::Block, ..self.clone() };
        for (tool, definition) in offered {
            let (name, whole) = (name_hash(tool), whole_hash(definition));
            let (known, named) = (next.known.get(&name), choice.trusted.get(tool).copied());
            if known.is_some_and(|known| known.whole == whole) {
                continue;
            }
            let now = DefinitionDigest::of(definition, whole);
            let is_trusted = named.map_or(known.is_none(), |named| named == whole);
            if is_trusted && (known.is_some() || next.known.len() < MOST) {
                Arc::make_mut(&mut next.known).insert(name, now);
                continue;
            }
            let change = Change::of((tool, definition), now, known, named);
            next.changes.insert(tool.to_owned(), Arc::new(change));
        }
        next
    }

    /// The digests of the trusted definitions as bytes, in a fixed order.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut known: Vec<_> = self.known.iter().collect();
        known.sort_unstable_by_key(|(name, _)| **name);
        known.into_iter().flat_map(|(name, digest)| digest.to_record(name)).collect()
    }

    /// Reads what [`Trust::to_bytes`] made. `None` if it is something else.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (records, rest) = bytes.as_chunks::<RECORD>();
        if !rest.is_empty() || records.len() > MOST {
            return None;
        }
        let known: HashMap<_, _> =
            records.iter().map(DefinitionDigest::from_record).collect::<Option<_>>()?;
        Some(Self { known: Arc::new(known), ..Self::default() })
    }

    /// Adds the trusted definitions of changed tools: from `before`, or else from `offered`, the tools that the server had
    /// until now.
    pub(super) fn with_definitions<'a>(
        mut self,
        before: &Self,
        offered: impl Iterator<Item = (&'a str, &'a Raw)>,
    ) -> Self {
        if self.changes.is_empty() {
            return self;
        }
        // All tools of a list can have changed, so each is found without a search.
        let offered: HashMap<&str, &Raw> = offered.collect();
        let mut left = MOST_BEFORE;
        for (tool, change) in &mut self.changes {
            let known = before.changes.get(tool).filter(|known| known.trusted == change.trusted);
            let definition = known.and_then(|known| known.trusted_definition.clone()).or_else(|| {
                let found = offered.get(tool.as_str()).filter(|found| found.bytes().len() <= left)?;
                // A copy, because the definition is a part of a whole list.
                let copy = || Raw::parse(&Bytes::copy_from_slice(found.bytes())).ok();
                if Some(whole_hash(found)) == change.trusted { copy() } else { None }
            });
            let Some(definition) = definition else { continue };
            let Some(rest) = left.checked_sub(definition.bytes().len()) else { continue };
            left = rest;
            Arc::make_mut(change).trusted_definition = Some(definition);
        }
        self
    }

    /// Applies an operator's approval to the current definitions of `server`.
    pub(super) fn approved<'a>(
        &self,
        approval: Approval<'_>,
        server: &Arc<str>,
        offered: impl Iterator<Item = (&'a str, &'a Raw)>,
    ) -> Result<Self, Error> {
        let offered: Vec<(&str, &Raw)> = offered.collect();
        let mut next = self.clone();
        for change in self.chosen(approval, server, &offered)? {
            let name = name_hash(&change.tool);
            if next.known.len() >= MOST && !next.known.contains_key(&name) {
                next.retain_offered(&offered);
            }
            Arc::make_mut(&mut next.known).insert(name, change.now);
            next.changes.remove(&change.tool);
            next.elsewhere.remove(&change.tool);
            let (tool, definition) = (untrusted(&change.tool), change.sha256());
            tracing::info!(%server, %tool, definition, "a tool's definition was approved");
        }
        Ok(next)
    }

    /// Returns the changes that `approval` covers. A tool that is already trusted gives no change.
    fn chosen(
        &self,
        approval: Approval<'_>,
        server: &Arc<str>,
        offered: &[(&str, &Raw)],
    ) -> Result<Vec<&Change>, Error> {
        let Some(name) = approval.tool else { return Ok(self.changes().collect()) };
        let names = || offered.iter().map(|(tool, _)| *tool);
        let change = self.change(name);
        let definition =
            || offered.iter().find(|(tool, _)| *tool == name).map(|(_, found)| whole_hash(found));
        let Some(now) = change.map(|change| change.now.whole).or_else(definition) else {
            return Err(Error::name_not_found(ItemKind::Tool, name, Some(server), names()));
        };
        let now = hex::encode(now);
        if approval.sha256.is_some_and(|digest| !digest.eq_ignore_ascii_case(&now)) {
            return Err(Error::OtherDefinition { server: Arc::clone(server), tool: name.to_owned(), now });
        }
        Ok(change.map(AsRef::as_ref).into_iter().collect())
    }

    /// Forgets the definitions of tools that the server no longer has.
    fn retain_offered(&mut self, offered: &[(&str, &Raw)]) {
        let there: HashSet<Sha256Hash> = offered.iter().map(|(tool, _)| name_hash(tool)).collect();
        Arc::make_mut(&mut self.known).retain(|name, _| there.contains(name));
    }

    /// Logs the changes since `before`. If the audit log is full, this fails and must be repeated.
    pub(super) fn report(&self, server: &str, before: Option<&Self>) -> Result<(), audit::Full> {
        let was_told = |change: &Change| {
            let before_notice = before.and_then(|before| before.change(&change.tool));
            before_notice.is_some_and(|before_notice| before_notice.now == change.now)
                && before.is_some_and(|b| b.holds == self.holds)
        };
        let outcome = if self.holds { "held_back" } else { "passed" };
        let mut news = self.changes().filter(|change| !was_told(change));
        for change in news.by_ref().take(TOLD) {
            audit::tool_changed(server, &change.tool, &change.changed, &change.sha256(), outcome)?;
        }
        let more = news.count();
        if more > 0 {
            tracing::warn!(server, more, outcome, "more definitions of tools changed than are logged here");
        }
        Ok(())
    }
}

/// The SHA-256 of a definition in its canonical form, in hexadecimal digits.
pub(super) fn definition_sha256(definition: &Raw) -> String {
    hex::encode(whole_hash(definition))
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;

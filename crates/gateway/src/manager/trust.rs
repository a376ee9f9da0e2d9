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
//! Where a view holds new tools, a tool that the first list of its server did not have is remembered as new until an
//! operator approves it.
//!
//! Not here: how an untrusted tool is treated (`catalog`, by
//! `tools.on_change`), who may approve.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::error::{Error, ItemKind};
use super::view::Holding;
use json::{Raw, canonical};
use protocol::skill;
use runtime::telemetry::{audit, untrusted};
use upstream::config::{OnChange, Tools};

/// Limit of remembered definitions of one server: the limit of one list of tools.
const MOST: usize = 10_000;
/// Name that a change is reported under if only the hash of the trusted definition is known.
const WHOLE: &str = "definition";
/// Name that a tool is reported under that its server did not have before, and that a view holds.
const NEW: &str = "new";
/// The members of a definition by which views select: what the tool does, and whether it is for apps alone.
const SELECTING: [&str; 2] = ["annotations", "_meta"];
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
    /// Those of them that were not in the first list while a view held new tools, and that nobody approved.
    new: Arc<HashSet<Sha256Hash>>,
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

    /// Whether its server did not have it before, and nobody approved it.
    pub fn is_new(&self) -> bool {
        self.changed.first() == Some(&NEW)
    }

    /// Whether views may select it otherwise than before.
    fn is_of_selection(&self) -> bool {
        is_of_selection(&self.changed)
    }

    /// Whether its definition is not the trusted one.
    fn differs(&self) -> bool {
        self.changed != [NEW]
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
        let is_new =
            self.known.len() != own.known.len() || self.new != own.new || elsewhere != self.elsewhere;
        let (known, new) = (Arc::clone(&own.known), Arc::clone(&own.new));
        is_new.then(|| Self { known, new, elsewhere, ..self.clone() })
    }

    /// Whether a tool with `change` is blocked for all clients.
    pub fn blocks(&self, change: &Change) -> bool {
        self.holds && change.differs()
    }

    /// Returns the change of `tool`, if the tool is blocked for it.
    pub(super) fn held(&self, tool: &str) -> Option<&Arc<Change>> {
        self.changes.get(tool).filter(|change| self.blocks(change))
    }

    /// Whether a view that holds new tools holds `tool`: its server did not have it before, or changed what views select
    /// by.
    pub(super) fn is_new(&self, tool: &str) -> bool {
        self.is_new_name(&name_hash(tool))
            || self.changes.get(tool).is_some_and(|change| self.is_new_to_views(change))
    }

    /// Whether a view that holds new tools holds a tool with `change`.
    pub(super) fn is_new_to_views(&self, change: &Change) -> bool {
        change.is_new() || change.is_of_selection() || self.is_new_name(&name_hash(&change.tool))
    }

    /// How many tools are blocked for all clients.
    pub fn blocked(&self) -> usize {
        self.changes().filter(|change| self.blocks(change)).count()
    }

    fn is_new_name(&self, name: &Sha256Hash) -> bool {
        // Beyond the limit of remembered tools, none is known.
        self.new.contains(name) || !self.known.is_empty() && !self.known.contains_key(name)
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

    /// Compares the current definitions of the server with the trusted ones. A tool that was never seen becomes trusted,
    /// unless the configuration file names another definition of it. Where views hold new tools, all that it shows first
    /// are known, and a later one is new.
    pub(super) fn reviewed<'a>(
        &self,
        offered: impl Iterator<Item = (&'a str, &'a Raw)>,
        choice: &Tools,
        holding: Holding<'_>,
    ) -> Self {
        let (policy, holds_new) = (choice.on_change, holding.is_any());
        if policy == OnChange::Allow && !holds_new {
            return Self::default();
        }
        let holds = policy == OnChange::Block;
        let mut next = Self { changes: BTreeMap::new(), holds, ..self.clone() };
        if !holds_new {
            next.new = Arc::default();
        }
        let is_first = next.known.is_empty();
        for (tool, definition) in offered {
            let (name, whole) = (name_hash(tool), whole_hash(definition));
            let (known, named) = (next.known.get(&name).copied(), choice.trusted.get(tool).copied());
            let is_same = known.is_some_and(|known| known.whole == whole);
            if is_same && !next.new.contains(&name) {
                continue;
            }
            let now = known.filter(|_| is_same).unwrap_or_else(|| DefinitionDigest::of(definition, whole));
            let is_trusted =
                policy == OnChange::Allow || is_same || named.map_or(known.is_none(), |named| named == whole);
            let has_room = known.is_some() || next.known.len() < MOST;
            let mut change = (!is_trusted || !has_room && policy != OnChange::Allow)
                .then(|| Change::of((tool, definition), now, known.as_ref(), named));
            // Where changes are allowed, nothing else remembers that views would select by another definition.
            let is_selected_anew =
                policy == OnChange::Allow && known.is_some_and(|known| is_of_selection(&now.differs(&known)));
            if has_room && holds_new && !is_first && (known.is_none() || is_selected_anew) {
                Arc::make_mut(&mut next.new).insert(name);
            }
            if has_room && is_trusted && !is_same {
                Arc::make_mut(&mut next.known).insert(name, now);
            }
            if holds_new && !is_first && next.is_new_name(&name) && holding.holds(choice, tool, definition) {
                let new = || Change { trusted: None, ..Change::of((tool, definition), now, None, None) };
                change.get_or_insert_with(new).changed.insert(0, NEW);
            }
            next.changes.extend(change.map(|change| (tool.to_owned(), Arc::new(change))));
        }
        next
    }

    /// The digests of the trusted definitions as bytes, in a fixed order.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut known: Vec<_> = self.known.iter().collect();
        known.sort_unstable_by_key(|(name, _)| **name);
        known.into_iter().flat_map(|(name, digest)| digest.to_record(name)).collect()
    }

    /// Whether a file of `other` has the same content.
    pub(super) fn remembers_the_same(&self, other: &Self) -> bool {
        self.known == other.known && self.new == other.new
    }

    /// The hashes of the names of new tools as bytes, in a fixed order.
    pub(super) fn new_to_bytes(&self) -> Vec<u8> {
        let mut new: Vec<_> = self.new.iter().collect();
        new.sort_unstable();
        new.into_iter().flatten().copied().collect()
    }

    /// Reads what [`Trust::to_bytes`] and [`Trust::new_to_bytes`] made. `None` if it is something else.
    pub(super) fn from_bytes(bytes: &[u8], new: &[u8]) -> Option<Self> {
        let (records, rest) = bytes.as_chunks::<RECORD>();
        if !rest.is_empty() || records.len() > MOST {
            return None;
        }
        let known: HashMap<_, _> =
            records.iter().map(DefinitionDigest::from_record).collect::<Option<_>>()?;
        let (names, rest) = new.as_chunks();
        let new: HashSet<Sha256Hash> = names.iter().copied().collect();
        (rest.is_empty() && names.len() <= MOST).then(|| Self {
            known: Arc::new(known),
            new: Arc::new(new),
            ..Self::default()
        })
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
            if next.new.contains(&name) {
                Arc::make_mut(&mut next.new).remove(&name);
            }
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
        Arc::make_mut(&mut self.new).retain(|name| there.contains(name));
    }

    /// Logs the changes since `before`. If the audit log is full, this fails and must be repeated.
    pub(super) fn report(&self, server: &str, before: Option<&Self>) -> Result<(), audit::Full> {
        let was_told = |change: &Change| {
            let before_notice = before.and_then(|before| before.change(&change.tool));
            before_notice.is_some_and(|before_notice| {
                before_notice.now == change.now && before_notice.is_new() == change.is_new()
            }) && before.is_some_and(|b| b.holds == self.holds)
        };
        let outcome = |change: &Change| match (self.blocks(change), change.is_new()) {
            (true, _) => "held_back",
            (false, true) => "held_in_views",
            (false, false) => "passed",
        };
        let mut news = self.changes().filter(|change| !was_told(change));
        for change in news.by_ref().take(TOLD) {
            let (tool, changed, sha256) = (&change.tool, &change.changed, change.sha256());
            audit::tool_changed(server, tool, changed, &sha256, outcome(change))?;
        }
        let more = news.count();
        if more > 0 {
            tracing::warn!(server, more, "more definitions of tools changed than are logged here");
        }
        Ok(())
    }
}

/// The SHA-256 of a definition in its canonical form, in hexadecimal digits.
pub(super) fn definition_sha256(definition: &Raw) -> String {
    hex::encode(whole_hash(definition))
}

fn is_of_selection(changed: &[&str]) -> bool {
    SELECTING.iter().any(|member| changed.contains(member))
}

/// The members of a definition that are compared one by one.
const MEMBERS: [&str; 10] = [
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "icons",
    "execution",
    "_meta",
    "frontmatter",
    "resources",
];
/// Name that a change of any other member is reported under.
const OTHERS: &str = "other members";

/// The bytes of one digest where digests are kept in a file: the hashes of the name, the whole and the members.
const RECORD: usize = 64 + 16 * (MEMBERS.len() + 1);

/// SHA-256.
///
/// Invariant: a digest is that of the canonical form, so the order of members and the spelling of values do not
/// matter.
type Sha256Hash = [u8; 32];

/// Hashes of one definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DefinitionDigest {
    whole: Sha256Hash,
    /// The first bytes of the hashes of [`MEMBERS`], and of all other members together.
    members: [[u8; 16]; MEMBERS.len() + 1],
}

impl DefinitionDigest {
    /// `whole` is the hash of all of `definition`.
    fn of(definition: &Raw, whole: Sha256Hash) -> Self {
        let mut hashes: [Sha256; MEMBERS.len() + 1] = Default::default();
        let mut members: Vec<(Cow<'_, str>, Raw)> = definition.members().collect();
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, value) in &members {
            let at = MEMBERS.iter().position(|member| member == name).unwrap_or(MEMBERS.len());
            let value = canonical::text(value);
            // Each piece is preceded by its length, so that two different members never give the same input.
            for piece in [name.as_bytes(), &value] {
                hashes[at].update(piece.len().to_le_bytes());
                hashes[at].update(piece);
            }
        }
        let short = |hash: Sha256| {
            let hash: Sha256Hash = hash.finalize().into();
            std::array::from_fn(|at| hash[at])
        };
        Self { whole, members: hashes.map(short) }
    }

    /// Returns the members in which this definition differs from `before`.
    fn differs(&self, before: &Self) -> Vec<&'static str> {
        let names = MEMBERS.into_iter().chain([OTHERS]);
        let both = self.members.iter().zip(&before.members);
        names.zip(both).filter(|(_, (now, before))| now != before).map(|(name, _)| name).collect()
    }

    /// The digest as bytes, after the hash of the tool's name.
    fn to_record(self, name: &Sha256Hash) -> Vec<u8> {
        [&name[..], &self.whole[..], self.members.as_flattened()].concat()
    }

    /// Reads what [`DefinitionDigest::to_record`] made.
    fn from_record(record: &[u8; RECORD]) -> Option<(Sha256Hash, Self)> {
        let (name, record) = record.split_first_chunk()?;
        let (whole, record) = record.split_first_chunk()?;
        let members = record.as_chunks().0.try_into().ok()?;
        Some((*name, Self { whole: *whole, members }))
    }
}

/// Hashes the canonical form of a definition.
fn whole_hash(definition: &Raw) -> Sha256Hash {
    Sha256::digest(canonical::text(definition)).into()
}

fn name_hash(name: &str) -> Sha256Hash {
    Sha256::digest(name).into()
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;

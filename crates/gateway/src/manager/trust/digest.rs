//! Digests of definitions: of the whole, and of each member that is compared by itself.
//!
//! Invariant: a digest is that of the canonical form, so the order of members and the spelling of values do not matter.
//!
//! Not here: which definitions are trusted (`trust`).

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use json::{Raw, canonical};

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
pub(super) const RECORD: usize = 64 + 16 * (MEMBERS.len() + 1);

/// SHA-256.
pub(super) type Sha256Hash = [u8; 32];

/// Hashes of one definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DefinitionDigest {
    pub(super) whole: Sha256Hash,
    /// The first bytes of the hashes of [`MEMBERS`], and of all other members together.
    members: [[u8; 16]; MEMBERS.len() + 1],
}

impl DefinitionDigest {
    /// `whole` is the hash of all of `definition`.
    pub(super) fn of(definition: &Raw, whole: Sha256Hash) -> Self {
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
    pub(super) fn differs(&self, before: &Self) -> Vec<&'static str> {
        let names = MEMBERS.into_iter().chain([OTHERS]);
        let both = self.members.iter().zip(&before.members);
        names.zip(both).filter(|(_, (now, before))| now != before).map(|(name, _)| name).collect()
    }

    /// The digest as bytes, after the hash of the tool's name.
    pub(super) fn to_record(self, name: &Sha256Hash) -> Vec<u8> {
        [&name[..], &self.whole[..], self.members.as_flattened()].concat()
    }

    /// Reads what [`DefinitionDigest::to_record`] made.
    pub(super) fn from_record(record: &[u8; RECORD]) -> Option<(Sha256Hash, Self)> {
        let (name, record) = record.split_first_chunk()?;
        let (whole, record) = record.split_first_chunk()?;
        let members = record.as_chunks().0.try_into().ok()?;
        Some((*name, Self { whole: *whole, members }))
    }
}

/// Hashes the canonical form of a definition.
pub(super) fn whole_hash(definition: &Raw) -> Sha256Hash {
    Sha256::digest(canonical::text(definition)).into()
}

pub(super) fn name_hash(name: &str) -> Sha256Hash {
    Sha256::digest(name).into()
}

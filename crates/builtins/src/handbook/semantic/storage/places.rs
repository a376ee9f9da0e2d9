//! Finds the sections that have a text, by its digest. Computed once per state of the documents, at the first
//! use.
//!
//! Also makes the ids of vectors at Chroma: `MODEL-DIGEST`. Vectors of two models therefore never share an
//! id, whatever the metadata of a collection say.

use sha2::{Digest, Sha256};

use super::super::passages::Digested;
use super::super::vectors::Vectors;
use crate::embedding::Embedding;

/// All passages, sorted by the digest of their text. Each has its document, its section and its start there.
#[derive(Debug, Default)]
pub(in super::super) struct Places(Vec<(Digested, u64, usize, usize)>);

impl Places {
    /// Collects the passages of `vectors`.
    pub(in super::super) fn of(vectors: &Vectors) -> Self {
        let mut all = Vec::with_capacity(vectors.passages());
        for (document, of) in &vectors.by_serial {
            let places = of.sections.iter().zip(&of.begins);
            let own = of.digests.iter().zip(places);
            all.extend(own.map(|(digest, (section, begin))| (*digest, *document, *section, *begin)));
        }
        all.sort_unstable();
        Self(all)
    }

    /// Returns the sections that have the text with this digest, as document and number, with its start
    /// there.
    pub(super) fn having(&self, digest: &Digested) -> impl Iterator<Item = ((u64, usize), usize)> {
        let begin = self.0.partition_point(|(other, ..)| other < digest);
        self.0[begin..]
            .iter()
            .take_while(move |(other, ..)| other == digest)
            .map(|(_, document, section, begin)| ((*document, *section), *begin))
    }
}

/// Prefix of the ids of one model's vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdPrefix(String);

impl IdPrefix {
    /// The prefix for the vectors of `model`.
    pub(super) fn of(model: &dyn Embedding) -> Self {
        let model = format!("{}\0{}", model.provider(), model.model());
        Self(format!("{}-", hex::encode(&Sha256::digest(model)[..4])))
    }

    /// Returns the id of the vector of a text.
    pub(super) fn id(&self, digest: &Digested) -> String {
        format!("{}{}", self.0, hex::encode(digest))
    }

    /// Returns the digest in `id`, or `None` if the id is of another model or program.
    pub(super) fn digest(&self, id: &str) -> Option<Digested> {
        let bytes = hex::decode(id.strip_prefix(&self.0)?).ok()?;
        let digest = Digested::try_from(bytes).ok()?;
        // Each digest has only one id, with small letters.
        (self.id(&digest) == id).then_some(digest)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::vectors::DocumentVectors;
    use super::*;

    #[test]
    fn only_what_is_written_by_the_rule_is_a_digest() {
        let naming = IdPrefix("0123abcd-".into());
        let digest: Digested = std::array::from_fn(|at| u8::try_from(at * 17).expect("a byte"));
        let id = naming.id(&digest);
        assert_eq!(id, "0123abcd-00112233445566778899aabbccddeeff");
        assert_eq!(naming.digest(&id), Some(digest));
        let upper = id.replace("ff", "FF");
        let long = format!("{id}00");
        let foreign = id.replace("0123", "9123");
        let odd = &id[..id.len() - 1];
        for other in
            ["", "0123abcd-", upper.as_str(), &long, &foreign, odd, "0123abcd-é112233445566778899aabbccddeef"]
        {
            assert_eq!(naming.digest(other), None, "{other}");
        }
    }

    #[test]
    fn a_text_stands_wherever_it_stands() {
        let of = |sections: &[usize], digests: &[u8]| {
            let digests = digests.iter().map(|byte| [*byte; 16]).collect();
            let begins = sections.iter().map(|section| 10 * section).collect();
            Arc::new(DocumentVectors {
                sections: sections.to_vec(),
                begins,
                digests,
                ..DocumentVectors::default()
            })
        };
        let by_serial = [(7, of(&[0, 2], &[9, 4])), (8, of(&[1], &[9]))];
        let places = Places::of(&Vectors { by_serial: by_serial.into() });
        let having = |byte: u8| places.having(&[byte; 16]).collect::<Vec<_>>();
        assert_eq!(having(9), [((7, 0), 0), ((8, 1), 10)]);
        assert_eq!(having(4), [((7, 2), 20)]);
        assert!(having(0).is_empty() && having(5).is_empty() && having(255).is_empty());
    }
}

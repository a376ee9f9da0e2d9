//! Where one word occurs.

/// Bits for a position: no section has a million words.
const POSITION: u32 = 20;
/// Bits for a field and a position.
const FIELD: u32 = POSITION + 2;

/// One occurrence of a word. They are ordered by section, field and position. The difference of two occurrences
/// in one field is that of their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Occurrence(pub u64);

impl Occurrence {
    /// Makes an occurrence.
    pub(super) const fn new(section: usize, field: usize, position: usize) -> Self {
        Self((section as u64) << FIELD | (field as u64) << POSITION | position as u64)
    }

    /// Returns the number of the section in the index.
    #[allow(clippy::cast_possible_truncation)] // it was a `usize`
    pub(super) const fn section(self) -> usize {
        (self.0 >> FIELD) as usize
    }

    /// Returns the number of the field.
    pub(super) const fn field(self) -> usize {
        (self.0 >> POSITION & 3) as usize
    }

    const fn moved(self, section: usize) -> Self {
        Self((section as u64) << FIELD | self.0 & ((1 << FIELD) - 1))
    }
}

/// The occurrences of a word, in order. Their differences are stored, seven bits in a byte.
#[derive(Debug, Default, Clone)]
pub(super) struct Postings {
    bytes: Vec<u8>,
    last: u64,
}

impl Postings {
    /// Adds an occurrence, which is not before the others.
    #[allow(clippy::cast_possible_truncation)] // the lowest seven bits
    pub(super) fn push(&mut self, occurrence: Occurrence) {
        let mut rest = occurrence.0 - self.last;
        self.last = occurrence.0;
        while rest >= 0x80 {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }

    /// Returns the occurrences.
    pub(super) fn iter(&self) -> impl Iterator<Item = Occurrence> {
        let (mut at, mut shift) = (0, 0);
        let mut difference = 0;
        self.bytes.iter().filter_map(move |byte| {
            difference |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            (byte & 0x80 == 0).then(|| {
                at += std::mem::take(&mut difference);
                shift = 0;
                Occurrence(at)
            })
        })
    }

    /// Returns the occurrences in sections that stay. `numbers` has the new number of each section that stays.
    pub(super) fn renumbered(&self, numbers: &[Option<usize>]) -> Self {
        let mut kept = Self::default();
        let moved = |old: Occurrence| Some(old.moved(numbers[old.section()]?));
        self.iter().filter_map(moved).for_each(|occurrence| kept.push(occurrence));
        kept.bytes.shrink_to_fit();
        kept
    }

    /// Whether the word does not occur.
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn listed(places: &BTreeSet<(usize, usize, usize)>) -> Vec<Occurrence> {
        places.iter().map(|&(section, field, position)| Occurrence::new(section, field, position)).collect()
    }

    proptest! {
        #[test]
        fn postings_are_read_as_they_were_written_also_without_one_section(
            places in proptest::collection::btree_set((0_usize..300, 0_usize..3, 0_usize..1_000_000), 0..40),
            gone in 0_usize..300,
        ) {
            let mut postings = Postings::default();
            listed(&places).into_iter().for_each(|occurrence| postings.push(occurrence));
            prop_assert_eq!(postings.iter().collect::<Vec<_>>(), listed(&places));
            let number = |section: usize| (section != gone).then(|| section - usize::from(section > gone));
            let kept = postings.renumbered(&(0..300).map(number).collect::<Vec<_>>());
            let moved = places.iter().filter_map(|&(section, field, position)| Some((number(section)?, field, position)));
            let expected = listed(&moved.collect());
            prop_assert_eq!(kept.is_empty(), expected.is_empty());
            prop_assert_eq!(kept.iter().collect::<Vec<_>>(), expected);
        }
    }
}

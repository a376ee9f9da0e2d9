//! Where one word occurs: sections in ascending order, with its positions in each field.
//!
//! Numbers take seven bits of each byte. The positions of a section can be skipped, because most searches need
//! only counts.

/// Fields of a section: heading, place and text. The place is the headings above, the title, and the path of
/// the file.
pub(super) const FIELDS: usize = 3;
/// How often each field of a section has a word.
pub(super) type Counts = [usize; FIELDS];
/// Where each field of a section has a word, in ascending order.
pub(super) type Positions = [Vec<usize>; FIELDS];

/// The sections that have a word.
#[derive(Debug, Default, Clone)]
pub(super) struct Postings {
    bytes: Vec<u8>,
    /// The last section.
    last: usize,
}

/// A word in one section.
pub(super) struct Posting<'a> {
    /// Number of the section in the index.
    pub section: usize,
    /// How often the word is in it.
    pub counts: Counts,
    positions: &'a [u8],
}

impl Postings {
    /// Adds a section, which comes after the others.
    pub(super) fn push(&mut self, section: usize, positions: &Positions) {
        let mut bytes = Vec::new();
        for of_field in positions {
            let mut before = 0;
            for &position in of_field {
                write(&mut bytes, position - before);
                before = position;
            }
        }
        self.append(section, positions.each_ref().map(Vec::len), &bytes);
    }

    fn append(&mut self, section: usize, counts: Counts, positions: &[u8]) {
        for number in [section - self.last].into_iter().chain(counts).chain([positions.len()]) {
            write(&mut self.bytes, number);
        }
        self.bytes.extend_from_slice(positions);
        self.last = section;
    }

    /// Returns the sections, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Posting<'_>> {
        let (mut bytes, mut section) = (self.bytes.as_slice(), 0);
        std::iter::from_fn(move || {
            if bytes.is_empty() {
                return None;
            }
            section += read(&mut bytes);
            let counts = std::array::from_fn(|_| read(&mut bytes));
            let length = read(&mut bytes);
            let (positions, rest) = bytes.split_at(length);
            bytes = rest;
            Some(Posting { section, counts, positions })
        })
    }

    /// Returns the sections that stay. `numbers` has the new number of each section that stays.
    pub(super) fn renumbered(&self, numbers: &[Option<usize>]) -> Self {
        let mut kept = Self::default();
        for posting in self.iter() {
            if let Some(number) = numbers[posting.section] {
                kept.append(number, posting.counts, posting.positions);
            }
        }
        kept.bytes.shrink_to_fit();
        kept
    }

    /// Whether no section has the word.
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl Posting<'_> {
    /// Returns where the word is in the section.
    pub(super) fn positions(&self) -> Positions {
        let mut bytes = self.positions;
        self.counts.map(|count| {
            let mut position = 0;
            (0..count)
                .map(|_| {
                    position += read(&mut bytes);
                    position
                })
                .collect()
        })
    }
}

#[allow(clippy::cast_possible_truncation)] // the lowest seven bits
fn write(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut &[u8]) -> usize {
    let (mut number, mut shift) = (0, 0);
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    number
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Sections = BTreeMap<usize, Positions>;

    fn decoded(postings: &Postings) -> Sections {
        postings.iter().map(|posting| (posting.section, posting.positions())).collect()
    }

    fn any_sections() -> impl Strategy<Value = Sections> {
        let positions = || proptest::collection::btree_set(0_usize..1_000_000, 0..5);
        let fields = (positions(), positions(), positions());
        let fields = fields.prop_map(|(a, b, c)| [a, b, c].map(|of_field| of_field.into_iter().collect()));
        proptest::collection::btree_map(0_usize..300, fields, 0..20)
    }

    proptest! {
        #[test]
        fn postings_are_read_as_they_were_written_also_without_one_section(
            sections in any_sections(),
            gone in 0_usize..300,
        ) {
            let mut postings = Postings::default();
            for (section, positions) in &sections {
                postings.push(*section, positions);
            }
            prop_assert_eq!(&decoded(&postings), &sections);
            let number = |section: usize| (section != gone).then(|| section - usize::from(section > gone));
            let kept = postings.renumbered(&(0..300).map(number).collect::<Vec<_>>());
            let expected: Sections =
                sections.into_iter().filter_map(|(section, at)| Some((number(section)?, at))).collect();
            prop_assert_eq!(kept.is_empty(), expected.is_empty());
            prop_assert_eq!(decoded(&kept), expected);
        }
    }
}

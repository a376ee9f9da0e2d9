//! An index of texts by the literal text that they begin with.
//!
//! Invariant: a lookup costs one binary search and the entries that it finds, also where every prefix is a prefix
//! of the next one. Not here: matching the rest of a text (`uri::Template`).

/// Entries under their prefixes.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    /// Sorted by their text.
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    text: String,
    /// The longest other prefix that this one begins with.
    parent: Option<usize>,
    entries: Vec<usize>,
}

impl Prefixes {
    /// The index of `entries`, each with its prefix.
    pub(super) fn of<'a>(entries: impl Iterator<Item = (usize, &'a str)>) -> Self {
        let mut sorted: Vec<(&str, usize)> = entries.map(|(entry, prefix)| (prefix, entry)).collect();
        sorted.sort_unstable();
        let (mut nodes, mut open): (Vec<Node>, Vec<usize>) = (Vec::new(), Vec::new());
        for (text, entry) in sorted {
            if let Some(same) = nodes.last_mut().filter(|last| last.text == text) {
                same.entries.push(entry);
                continue;
            }
            while open.last().is_some_and(|&outer| !text.starts_with(&nodes[outer].text)) {
                open.pop();
            }
            let parent = open.last().copied();
            open.push(nodes.len());
            nodes.push(Node { text: text.to_owned(), parent, entries: vec![entry] });
        }
        Self { nodes }
    }

    /// The entries whose prefix `text` begins with, the longest prefix first.
    pub(super) fn matching(&self, text: &str) -> impl Iterator<Item = usize> {
        let nearest = self.nodes.partition_point(|node| node.text.as_str() <= text).checked_sub(1);
        let up = std::iter::successors(nearest, |&node| self.nodes[node].parent);
        let found = up.map(|node| &self.nodes[node]).filter(move |node| text.starts_with(&node.text));
        found.flat_map(|node| node.entries.iter().copied())
    }

    /// Whether the prefix of each entry and that of an entry of another group begin with one another. `group` has
    /// a group for each of the `count` entries.
    pub(super) fn overlapping<G: PartialEq + Copy>(
        &self,
        count: usize,
        group: impl Fn(usize) -> G,
    ) -> Vec<bool> {
        let own: Vec<Groups<G>> =
            self.nodes.iter().map(|node| Groups::of(node.entries.iter().map(|&e| group(e)))).collect();
        let (mut above, mut below) = (own.clone(), own);
        for node in 0..self.nodes.len() {
            if let Some(parent) = self.nodes[node].parent {
                above[node] = above[node].and(above[parent]);
            }
        }
        for node in (0..self.nodes.len()).rev() {
            if let Some(parent) = self.nodes[node].parent {
                below[parent] = below[parent].and(below[node]);
            }
        }
        let mut overlapping = vec![false; count];
        for (node, (above, below)) in self.nodes.iter().zip(above.into_iter().zip(below)) {
            node.entries.iter().for_each(|&entry| overlapping[entry] = above.and(below) == Groups::Several);
        }
        overlapping
    }
}

/// The groups of some entries, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Groups<G> {
    One(G),
    Several,
}

impl<G: PartialEq + Copy> Groups<G> {
    /// Those of a node, which has at least one entry.
    fn of(groups: impl Iterator<Item = G>) -> Self {
        groups.map(Self::One).reduce(Self::and).unwrap_or(Self::Several)
    }

    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Several }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_scan_finds(prefixes in prop::collection::vec("[ab]{0,4}", 0..12), text in "[ab]{0,6}") {
            let index = Prefixes::of(prefixes.iter().map(String::as_str).enumerate());
            let mut found: Vec<usize> = index.matching(&text).collect();
            found.sort_unstable();
            let scanned = prefixes.iter().enumerate().filter(|(_, prefix)| text.starts_with(prefix.as_str()));
            prop_assert_eq!(found, scanned.map(|(entry, _)| entry).collect::<Vec<_>>());
            let overlaps = |entry: usize| {
                prefixes.iter().enumerate().any(|(other, prefix)| {
                    let (one, two) = (prefix.as_str(), prefixes[entry].as_str());
                    other % 2 != entry % 2 && (one.starts_with(two) || two.starts_with(one))
                })
            };
            let expected: Vec<bool> = (0..prefixes.len()).map(overlaps).collect();
            prop_assert_eq!(index.overlapping(prefixes.len(), |entry| entry % 2), expected);
        }
    }
}

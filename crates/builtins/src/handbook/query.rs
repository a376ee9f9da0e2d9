//! Searches for the words that a person typed, so that no text is a syntax error.
//!
//! A word may occur in the heading, in the place (title, headings above, file name) or in the text. Headings
//! weigh most. The more of the words a section has, the more each of them is worth. Adjacent words of the query
//! that also stand together in a section weigh more. A synonym is worth less than the word. A section is worth more if others of its document match too. Stop words count only if there are no others. A word that no document has is taken for a misspelling or the beginning of a known word.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::LazyLock;

use super::index::{Index, Match, WEIGHTS, of_fields};
use super::postings::FIELDS;
use super::spelling::near;
use super::synonyms::synonyms_of;
use super::words::{Word, words_of};

/// Most words that are looked for. A longer query is a pasted text, whose beginning shows its topic.
const MOST_WORDS: usize = 48;
/// Words that may be misspelled. Each costs a walk through a part of the dictionary.
const MOST_GUESSES: usize = 6;
/// Weight of two adjacent words together, compared with the weight of each alone.
const NEIGHBOURS: f32 = 0.6;
/// Largest distance of two words that count as adjacent: "add a server" matches "add server".
const REACH: usize = 2;
/// Weight of a synonym, compared with the word itself.
const SYNONYM: f32 = 0.65;
/// Share of the next best sections of its document that a section gets: a document about the subject has several.
const COMPANY: f32 = 0.3;
/// How many further sections of a document count.
const COMPANIONS: usize = 3;
/// Score of a guessed word, about that of a found word of medium rarity.
const GUESS: f32 = 2.0;
/// Factor for a section that has almost none of the words.
const LEAST: f32 = 0.4;
/// Sections in which adjacent words are looked for: the best by their words alone.
const CANDIDATES: usize = 100;

/// Shortest word that is guessed, in letters. Shorter ones resemble too many.
const SHORTEST_GUESS: usize = 3;
/// Shortest word in which two letters may differ.
const LONG_GUESS: usize = 6;

/// Stop words: words of questions that every text has.
const EMPTY: &str = "a about also am an and any are as at be been but by can could did do does for from get \
    had happen happens has have how i if in into is it its me mean means my of on or our please shall \
    should so some such than that the their them then there these they this to us want was way we were \
    what when where which while who whom why will with would you your \
    а без бы в во где для до же за и из или как когда ли на не но о об от по при с со то у что это я";

static EMPTY_WORDS: LazyLock<HashSet<String>> =
    LazyLock::new(|| words_of(EMPTY).map(|word| word.text).collect());

/// Returns the words of a query that are looked for, in order.
pub(super) fn requested(text: &str) -> Vec<Word> {
    let words: Vec<Word> = words_of(text).take(4 * MOST_WORDS).collect();
    let full = |word: &Word| word.whole || !EMPTY_WORDS.contains(&word.text);
    let mut requested: Vec<Word> = words.iter().filter(|word| full(word)).cloned().collect();
    if requested.is_empty() {
        requested = words;
    }
    requested.truncate(MOST_WORDS);
    requested
}

/// Returns the sections with any of these words, best first, as far as they are wanted.
pub(super) fn search(index: &Index, words: &[Word], is_wanted: impl Fn(&Match) -> bool) -> Vec<Match> {
    let mut scores = Scores { of_sections: vec![(0.0, 0); index.len()], words: 0 };
    let mut rarities = HashMap::new();
    let mut seen = HashSet::new();
    let mut guesses = 0;
    for word in words.iter().filter(|word| seen.insert(word.text.as_str())) {
        let counts = index.counts(&word.text);
        let mut sections = BTreeMap::new();
        if !counts.is_empty() {
            let rarity = index.rarity(&counts);
            rarities.insert(word.text.as_str(), rarity);
            sections.extend(counts.into_iter().map(|(at, counts)| (at, index.bm25(at, counts, rarity))));
        }
        for synonym in synonyms_of(&word.text) {
            let counts = index.counts(synonym);
            let rarity = index.rarity(&counts);
            for (at, counts) in counts {
                let best = sections.entry(at).or_default();
                *best = (SYNONYM * index.bm25(at, counts, rarity)).max(*best);
            }
        }
        if !sections.is_empty() {
            scores.add(sections);
        } else if !word.whole && guesses < MOST_GUESSES && word.text.chars().count() >= SHORTEST_GUESS {
            guesses += 1;
            scores.add(guessed(index, &word.text));
        }
    }
    let mut best = scores.best(index, is_wanted);
    let mut is_candidate = vec![false; index.len()];
    for &section in best.keys() {
        is_candidate[section] = true;
    }
    for (left, right) in pairs(words) {
        if let (Some(a), Some(b)) = (rarities.get(left), rarities.get(right)) {
            for (section, weight) in adjacent(index, left, right, &is_candidate) {
                *best.entry(section).or_default() += NEIGHBOURS * (a + b) * weight;
            }
        }
    }
    let mut matches: Vec<Match> = best.into_iter().map(|(at, score)| index.matched(at, score)).collect();
    matches.sort_by(|a, b| b.score.total_cmp(&a.score));
    add_company(&mut matches);
    matches.sort_by(|a, b| b.score.total_cmp(&a.score));
    matches
}

/// Adds to the score of each section a share of the next best ones of its document. The order within a document stays.
fn add_company(sorted: &mut [Match]) {
    let mut of_document: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, found) in sorted.iter().enumerate() {
        of_document.entry(found.document).or_default().push(at);
    }
    for sections in of_document.values() {
        for (rank, &at) in sections.iter().enumerate() {
            let next = sections[rank + 1..].iter().take(COMPANIONS);
            sorted[at].score += COMPANY * next.map(|&other| sorted[other].score).sum::<f32>();
        }
    }
}

/// Scores of all sections so far.
struct Scores {
    /// Sum of the words' scores, and number of words that match.
    of_sections: Vec<(f32, u16)>,
    words: u16,
}

impl Scores {
    /// Adds the sections that one word matches.
    fn add(&mut self, scored: impl IntoIterator<Item = (usize, f32)>) {
        self.words += 1;
        for (section, score) in scored {
            let (sum, matched) = &mut self.of_sections[section];
            *sum += score;
            *matched += 1;
        }
    }

    /// Returns the best sections.
    fn best(self, index: &Index, is_wanted: impl Fn(&Match) -> bool) -> BTreeMap<usize, f32> {
        let scored = |(section, (sum, matched)): (usize, (f32, u16))| {
            let share = f32::from(matched) / f32::from(self.words);
            let score = sum * (LEAST + (1.0 - LEAST) * share);
            (matched > 0 && is_wanted(&index.matched(section, score))).then_some((section, score))
        };
        let mut found: Vec<(usize, f32)> =
            self.of_sections.into_iter().enumerate().filter_map(scored).collect();
        if found.len() > CANDIDATES {
            found.select_nth_unstable_by(CANDIDATES, |a, b| b.1.total_cmp(&a.1));
            found.truncate(CANDIDATES);
        }
        found.into_iter().collect()
    }
}

/// Returns the pairs of adjacent words, each once.
fn pairs(words: &[Word]) -> BTreeSet<(&str, &str)> {
    let parts: Vec<&str> = words.iter().filter(|word| !word.whole).map(|word| word.text.as_str()).collect();
    parts.windows(2).map(|two| (two[0], two[1])).filter(|(left, right)| left != right).collect()
}

/// Returns the wanted sections in which the right word follows the left one closely, and the weight of the
/// heaviest field where it does.
fn adjacent(index: &Index, left: &str, right: &str, is_wanted: &[bool]) -> Vec<(usize, f32)> {
    let left: HashMap<_, _> = index.positions(left, is_wanted).into_iter().collect();
    let weight = |(section, right): (usize, [Vec<usize>; FIELDS])| {
        let left = left.get(&section)?;
        let fields = (0..FIELDS).filter(|&field| meet(&left[field], &right[field]));
        Some((section, fields.map(|field| WEIGHTS[field]).fold(0.0, f32::max)))
    };
    index.positions(right, is_wanted).into_iter().filter_map(weight).collect()
}

/// Whether the right word follows the left one closely anywhere. Both lists are sorted.
fn meet(left: &[usize], right: &[usize]) -> bool {
    left.iter().any(|&at| {
        let next = right.partition_point(|&position| position <= at);
        right.get(next).is_some_and(|&position| position - at <= REACH)
    })
}

/// Returns the sections with words that are similar to this one. Each field counts with its most similar word.
fn guessed(index: &Index, word: &str) -> impl Iterator<Item = (usize, f32)> {
    let length = word.chars().count();
    let mut sections: BTreeMap<usize, [f32; FIELDS]> = BTreeMap::new();
    for (known, likeness) in similar(index, word, length) {
        for (section, counts) in index.counts(known) {
            let best = sections.entry(section).or_default();
            for (best, _) in best.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
                *best = likeness.max(*best);
            }
        }
    }
    sections.into_iter().map(|(section, likeness)| (section, GUESS * of_fields(likeness)))
}

/// Returns the known words that are similar, and how similar: 1 for those that begin with the word, or of which one letter
/// differs. In a longer word two letters may differ, because stemming makes misspellings differ more.
fn similar<'a>(index: &'a Index, word: &str, length: usize) -> BTreeMap<&'a str, f32> {
    let most = if length >= LONG_GUESS { 2 } else { 1 };
    let near = near(word, most, |from| index.words_from(from).next());
    let near = near.into_iter().map(|(known, edits)| (known, if edits < 2 { 1.0 } else { 0.5 }));
    let longer = index.words_from(Bound::Included(word)).take_while(|known| known.starts_with(word));
    near.chain(longer.map(|known| (known, 1.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handbook::document::{Document, Origin};
    use crate::handbook::git::Blob;

    fn found(texts: &[&str], query: &str) -> Vec<u64> {
        let mut index = Index::default();
        for (serial, text) in (0..).zip(texts) {
            let modified = std::time::SystemTime::UNIX_EPOCH;
            let blob = Blob::of(text.as_bytes());
            let origin = Origin { serial, file_path: format!("{serial}.md"), modified, blob };
            let (document, bodies) = Document::parse(origin, (*text).to_owned());
            index.add(&document, &bodies);
        }
        search(&index, &requested(query), |_| true).into_iter().map(|found| found.document).collect()
    }

    #[test]
    fn all_words_once_are_worth_more_than_one_word_often() {
        let texts = ["x", "gate gate gate gate", "open the gate slowly now", "y", "nowhere nothing"];
        assert_eq!(found(&texts, "gate slowly nowhere nothing"), [4, 2, 1]);
        assert_eq!(found(&texts[..4], "gate slowly"), [2, 1]);
    }

    #[test]
    fn an_unknown_word_finds_words_that_begin_with_it_or_differ_by_a_letter_or_two() {
        let texts = ["gateway", "breaker", "dashboard"];
        assert_eq!(found(&texts, "gatew"), [0], "the beginning");
        assert_eq!(found(&texts, "braeker"), [1], "two letters swapped");
        assert_eq!(found(&texts, "dachboart"), [2], "two wrong letters in a long word");
        assert!(found(&["gates"], "bales").is_empty(), "two wrong letters in a short word");
        assert!(found(&["gateway"], "ga").is_empty(), "too short to guess");
    }

    #[test]
    fn a_synonym_finds_sections_that_lack_the_word_and_after_those_that_have_it() {
        let texts = ["the memory of a machine", "the ram of a machine", "a wall"];
        assert_eq!(found(&texts, "ram"), [1, 0]);
        assert_eq!(found(&["remove it"], "uninstalling"), [0], "a word of the query that no section has");
        assert_eq!(found(&["x", "uninstall it"], "remove"), [1], "in both directions");
    }

    #[test]
    fn document_with_several_sections_about_it_precedes_one_that_mentions_it() {
        let once = "# A\n\n## Cranes\n\ncranes lift here\n\n## Docks\n\nships rest here";
        let several = "# A\n\n## Cranes\n\ncranes lift here\n\n## Docks\n\nships lift here";
        assert_eq!(found(&[once, several], "lift")[0], 1);
    }

    #[test]
    fn adjacent_words_in_order_and_near_are_worth_more() {
        let texts =
            ["server, then much else, add", "add the server", "server add", "add, then much else, server"];
        assert_eq!(found(&texts, "add server")[0], 1);
        let scattered = ["a server", "add", "x"];
        assert_eq!(found(&scattered, "add server").len(), 2, "sections end a pair");
    }
}

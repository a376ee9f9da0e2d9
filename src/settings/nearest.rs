//! The known word that an unknown one was probably meant to be.
//!
//! Invariant: long words are not compared, because the comparison takes time and space that grow with both lengths.
//! Not here: where a suggestion is shown.

/// Longest word that is compared with the known ones, in bytes.
const MAX_COMPARED: usize = 64;

/// The word that is most likely meant, if one is near.
pub(crate) fn nearest<'w>(found: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    if found.len() > MAX_COMPARED {
        return None; // nobody mistypes that much, and comparing takes time and space
    }
    let found = found.to_lowercase();
    words
        .filter(|word| word.len() <= MAX_COMPARED)
        .map(|word| (strsim::damerau_levenshtein(&found, word), word))
        .filter(|(distance, word)| {
            *distance <= 1 + word.chars().count() / 4 && *distance < word.chars().count()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

//! Problems of an offer for operators: a bounded list of bounded texts.

/// The most problems that are listed one by one.
const MAX_PROBLEMS: usize = 16;
/// Characters of a server's text in a problem or an error.
const MAX_QUOTED: usize = 200;

/// A bounded list of problems.
#[derive(Debug, Clone, Default)]
pub(super) struct Problems {
    texts: Vec<String>,
    more: usize,
}

impl Problems {
    pub(super) fn add(&mut self, text: String) {
        if self.texts.len() < MAX_PROBLEMS {
            self.texts.push(text);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn extend(&mut self, others: Self) {
        others.texts.into_iter().for_each(|text| self.add(text));
        self.more += others.more;
    }

    pub(super) fn into_texts(mut self) -> Vec<String> {
        if self.more > 0 {
            self.texts.push(format!("and {} more", self.more));
        }
        self.texts
    }
}

/// A server's text, escaped and shortened.
pub(super) fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_QUOTED).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

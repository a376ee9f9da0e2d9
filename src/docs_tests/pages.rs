//! The pages of the documentation and their fenced blocks.
//!
//! A block is left out if a comment `<!-- not run: REASON -->` stands directly before it.

use std::fs;
use std::path::{Path, PathBuf};

/// The start of a comment that leaves a block out.
const MARK: &str = "<!-- not run: ";

/// A fenced block that is to be checked.
pub(super) struct Block {
    /// The page and the line of its first fence.
    pub(super) place: String,
    /// The text between the fences.
    pub(super) text: String,
}

/// Languages of blocks: those that tests check, and those without commands and configuration. Rust in `docs/library.md` is
/// compiled as an example of the crate.
const LANGUAGES: [&str; 12] =
    ["", "console", "http", "json", "python", "rust", "rust,no_run", "sh", "text", "toml", "ts", "yaml"];

/// Returns the unmarked blocks of one language in all pages.
pub(super) fn blocks(language: &str) -> Vec<Block> {
    let pages = pages();
    pages.iter().flat_map(|(name, text)| blocks_of(name, text, |info| info == language)).collect()
}

/// The name and the text of each page: of users, of contributors, and beside the suites of tests.
fn pages() -> Vec<(String, String)> {
    let root = super::file("");
    let mut pages: Vec<_> = ["README.md", "CONTRIBUTING.md"].map(|name| root.join(name)).into();
    for folder in ["docs", "tests"] {
        collect(&root.join(folder), &mut pages);
    }
    pages.sort();
    let named = pages.iter().map(|page| {
        let name = page.strip_prefix(&root).unwrap_or(page).display().to_string();
        (name, fs::read_to_string(page).expect("text"))
    });
    named.collect()
}

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("readable") {
        let path = entry.expect("an entry").path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !is_hidden {
            collect(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// Returns the unmarked blocks of a page whose language `is_wanted`.
fn blocks_of(page: &str, text: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<Block> {
    let (mut found, mut before, mut open) = (Vec::new(), "", None);
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if let Some((is_kept, block)) = &mut open {
            if trimmed == "```" {
                found.extend(
                    Some(std::mem::replace(block, Block { place: String::new(), text: String::new() }))
                        .filter(|_| *is_kept),
                );
                open = None;
            } else {
                block.text += line;
                block.text.push('\n');
            }
        } else if let Some(info) = trimmed.strip_prefix("```") {
            let is_kept = is_wanted(info) && !before.starts_with(MARK);
            let place = format!("{page}:{}", number + 1);
            open = Some((is_kept, Block { place, text: String::new() }));
        }
        if !trimmed.is_empty() {
            before = trimmed;
        }
    }
    found
}

#[test]
fn a_marked_block_is_left_out() {
    let text = "```sh\na\n```\n\n<!-- not run: needs an account -->\n\n```sh\nb\n```\n```yaml\nc\n```\n";
    let found: Vec<String> = blocks_of("p", text, |info| info == "sh")
        .into_iter()
        .map(|block| block.place + " " + &block.text)
        .collect();
    assert_eq!(found, ["p:1 a\n"]);
}

#[test]
fn every_block_has_a_language_that_is_known() {
    let is_unknown = |info: &str| !LANGUAGES.contains(&info);
    let unknown: Vec<_> = pages()
        .iter()
        .flat_map(|(name, text)| blocks_of(name, text, is_unknown))
        .map(|block| block.place)
        .collect();
    assert!(unknown.is_empty(), "no test checks these: {}", unknown.join(", "));
    assert_eq!(blocks_of("p", "```bash\nx\n```\n", is_unknown).len(), 1);
}

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

/// Returns the unmarked blocks of one language in README and all pages for users.
pub(super) fn blocks(language: &str) -> Vec<Block> {
    let root = super::file("");
    let mut pages = vec![root.join("README.md")];
    collect(&root.join("docs"), &mut pages);
    pages.sort();
    let all = pages.iter().flat_map(|page| {
        let name = page.strip_prefix(&root).unwrap_or(page).display().to_string();
        blocks_of(&name, &fs::read_to_string(page).expect("text"), language)
    });
    all.collect()
}

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("readable") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("contributing") {
            collect(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

fn blocks_of(page: &str, text: &str, language: &str) -> Vec<Block> {
    let (mut found, mut before, mut open) = (Vec::new(), "", None);
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if let Some((is_wanted, block)) = &mut open {
            if trimmed == "```" {
                found.extend(
                    Some(std::mem::replace(block, Block { place: String::new(), text: String::new() }))
                        .filter(|_| *is_wanted),
                );
                open = None;
            } else {
                block.text += line;
                block.text.push('\n');
            }
        } else if let Some(info) = trimmed.strip_prefix("```") {
            let is_wanted = info == language && !before.starts_with(MARK);
            let place = format!("{page}:{}", number + 1);
            open = Some((is_wanted, Block { place, text: String::new() }));
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
    let found: Vec<String> =
        blocks_of("p", text, "sh").into_iter().map(|block| block.place + " " + &block.text).collect();
    assert_eq!(found, ["p:1 a\n"]);
}

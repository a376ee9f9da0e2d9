//! Reads the output of `git ls-tree -z`, to find files that equal their committed version.

use std::collections::HashMap;

use super::git_log::{Blob, GitOutput};

/// Reads the output part by part.
pub(super) struct TreeReader {
    wanted: HashMap<String, Blob>,
    committed: HashMap<String, Blob>,
    piece: Vec<u8>,
}

impl TreeReader {
    /// Makes a reader that looks for these files.
    pub(super) fn new(wanted: HashMap<String, Blob>) -> Self {
        Self { wanted, committed: HashMap::new(), piece: Vec::new() }
    }

    /// Returns the wanted files whose content is committed. Ignores an incomplete last part.
    pub(super) fn finish(self) -> HashMap<String, Blob> {
        self.committed
    }
}

impl GitOutput for TreeReader {
    fn begun(&mut self) -> &mut Vec<u8> {
        &mut self.piece
    }

    /// Reads `MODE TYPE BLOB`, a tab and the path.
    fn read(&mut self, piece: &[u8]) {
        let Some(tab) = piece.iter().position(|byte| *byte == b'\t') else { return };
        let content = piece[..tab].rsplit(|byte| *byte == b' ').next().unwrap_or_default();
        let Ok(path) = std::str::from_utf8(&piece[tab + 1..]) else { return };
        if let Some((path, blob)) = self.wanted.remove_entry(path)
            && blob.is_called(content)
        {
            self.committed.insert(path, blob);
        }
    }

    fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Output of `git hash-object` for `a\n`, in repositories of both kinds.
    const A: &str = "78981922613b2afb6025042ff6bd878ac1994e85";
    const LONG_A: &str = "f8625e43f9e04f24291f77cdbe4c71b3c2a3b0003f60419b3ed06a058d766c8b";

    fn wanted(files: &[(&str, &str)]) -> HashMap<String, Blob> {
        files.iter().map(|(path, text)| ((*path).to_owned(), Blob::of(text.as_bytes()))).collect()
    }

    #[test]
    fn what_is_there_with_the_same_content_is_committed() {
        let tree = format!(
            "100644 blob {A}\ta.md\x00100644 blob {LONG_A}\tsub/b\tü.md\x00100644 blob {A}\tedited.md\0\
             120000 blob {A}\tother.md\x00160000 commit {A}\tmodule\x00100644 blob {A}\tcut.md"
        );
        let files = [
            ("a.md", "a\n"),
            ("sub/b\tü.md", "a\n"),
            ("edited.md", "b\n"),
            ("new.md", "a\n"),
            ("cut.md", "a\n"),
        ];
        for size in [1, 7, tree.len()] {
            let mut reader = TreeReader::new(wanted(&files));
            assert!(tree.as_bytes().chunks(size).all(|part| reader.take(part)), "one is not there");
            let committed = reader.finish();
            let mut paths: Vec<&str> = committed.keys().map(String::as_str).collect();
            paths.sort_unstable();
            assert_eq!(paths, ["a.md", "sub/b\tü.md"]);
        }
    }

    proptest! {
        #[test]
        fn no_output_is_too_odd(tree in proptest::collection::vec(prop_oneof![Just(0_u8), Just(b'\t'), Just(b' '), any::<u8>()], 0..300)) {
            let mut reader = TreeReader::new(wanted(&[("a.md", "a\n")]));
            reader.take(&tree);
            prop_assert!(reader.finish().is_empty());
        }
    }
}

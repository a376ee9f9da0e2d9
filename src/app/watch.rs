//! Follows the configuration file, so that a change is applied without a request (`watch: true`).
//!
//! Invariants: a change counts once the file has stayed the same between two looks, so a file that is being written is not
//! read. The file that the path leads to counts: the exchange of a symbolic link (Kubernetes) or of the file (editors) is a
//! change. A file that is gone or empty is waited for.
//!
//! The file is looked at again and again, as key files and certificates are ([`runtime::regular_file`]).

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};

use runtime::regular_file::FileStamp;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A file, as it was when it was looked at last.
#[derive(Debug)]
pub struct WatchedFile {
    path: PathBuf,
    seen: Option<FileStamp>,
}

impl WatchedFile {
    /// The file at `path` as it is now. It blocks. Changes from now on count, so call it before you read the file.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), seen: FileStamp::of(path) }
    }

    /// Gives a value after each change.
    pub(super) fn changes(self) -> BoxStream<'static, ()> {
        let next = |mut file: Self| async {
            file.changed().await;
            Some(((), file))
        };
        stream::unfold(self, next).boxed()
    }

    async fn changed(&mut self) {
        let mut last = self.seen;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = tokio::fs::metadata(&self.path).await.ok().map(FileStamp::from);
            // A shell empties a file before the command that writes it has begun.
            let is_there = now.is_some_and(|now| !now.is_empty());
            if is_there && now == last && now != self.seen {
                self.seen = now;
                return;
            }
            last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use futures_util::FutureExt;

    use super::*;

    /// Whether a change is reported within ten looks.
    async fn reports(changes: &mut BoxStream<'static, ()>) -> bool {
        tokio::time::timeout(LOOK_EVERY * 10, changes.next()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn each_way_to_replace_a_file_is_one_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for version in ["one", "two"] {
            fs::create_dir(at(version)).expect("made");
            fs::write(at(version).join("file"), "a").expect("written");
        }
        symlink("one", at("data")).expect("linked");
        symlink("data/file", at("file")).expect("linked");
        let mut changes = WatchedFile::at(&at("file")).changes();
        assert!(!reports(&mut changes).await, "nothing has changed");

        let swap = || {
            symlink("two", at("next")).expect("linked");
            fs::rename(at("next"), at("data")).expect("renamed");
        };
        let rename = || {
            fs::write(at("new"), "c").expect("written");
            fs::rename(at("new"), at("file")).expect("renamed");
        };
        let ways: [(&str, &dyn Fn()); 3] = [
            ("the exchange of a folder", &swap),
            ("a write", &|| fs::write(at("file"), "bb").expect("written")),
            ("the exchange of the file", &rename),
        ];
        for (way, change) in ways {
            change();
            assert!(reports(&mut changes).await, "{way}");
            assert!(!reports(&mut changes).await, "{way} is reported once");
        }
        fs::remove_file(at("file")).expect("removed");
        assert!(!reports(&mut changes).await, "a file that is gone is no change");
        fs::write(at("file"), "").expect("written");
        assert!(!reports(&mut changes).await, "an empty file is one whose content is still to come");
        fs::write(at("file"), "d").expect("written");
        assert!(reports(&mut changes).await, "it is there again");
    }

    #[tokio::test(start_paused = true)]
    async fn file_that_is_being_written_is_not_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "").expect("written");
        let mut changes = WatchedFile::at(&path).changes();
        // The file is written between two looks.
        assert!(tokio::time::timeout(LOOK_EVERY / 2, changes.next()).await.is_err());
        let mut content = String::new();
        for _ in 0..5 {
            content.push('x');
            fs::write(&path, &content).expect("written");
            assert!(tokio::time::timeout(LOOK_EVERY, changes.next()).await.is_err());
        }
        assert!(changes.next().now_or_never().is_none() && reports(&mut changes).await);
    }
}

//! A bearer token in a file that another program renews: a projected token of Kubernetes, an agent of a vault, a job
//! that logs in.
//!
//! Invariants: a request has the token that was in the file at most 5 seconds ago. If the file cannot be read, the
//! previous token stays, because the other program may be writing just now. Without a previous token nothing is sent.
//! No token is shown anywhere.
//!
//! Not here: which requests carry it (`transport/http`), when a server that refused one is contacted again
//! (`supervise`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::error::Error;
use runtime::regular_file;

/// The longest time between two readings of the file.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The time limit of reading the file.
const LOOK_LIMIT: Duration = Duration::from_secs(2);
/// The longest token in bytes, more than any server accepts in a header.
const MAX_BYTES: u64 = 64 * 1024;

/// The file and its last token. Clones share them.
#[derive(Clone)]
pub struct TokenFile(Arc<TokenFileState>);

struct TokenFileState {
    path: PathBuf,
    held: ArcSwapOption<LoadedToken>,
    /// The previous token, which pending requests may carry.
    before: ArcSwapOption<LoadedToken>,
    /// The last token that the server refused.
    refused: ArcSwapOption<LoadedToken>,
    /// Locked while the file is read, so that a file that blocks holds up one thread only.
    looking: Arc<Mutex<()>>,
    made: Instant,
    /// When the file is read again, in milliseconds after `made`.
    due: AtomicU64,
}

struct LoadedToken {
    token: SecretString,
    header: HeaderValue,
}

impl TokenFile {
    /// The file at `path`. It is read when the first request is sent.
    pub fn new(path: PathBuf) -> Self {
        let [held, before, refused] = [const { ArcSwapOption::const_empty() }; 3];
        let (looking, made, due) = (Arc::default(), Instant::now(), AtomicU64::new(0));
        Self(Arc::new(TokenFileState { path, held, before, refused, looking, made, due }))
    }

    /// Returns the value of `Authorization` for a request that is sent now; [`Error::Connect`] if there is none.
    pub(super) async fn header(&self) -> Result<HeaderValue, Error> {
        let fault = self.look_if_due().await.err();
        let held = self.0.held.load();
        if let Some(fault) = &fault {
            tracing::warn!(path = %self.0.path.display(), fault, "the file of a token cannot be read");
        }
        held.as_ref().map(|held| held.header.clone()).ok_or_else(|| {
            let fault = fault.unwrap_or_else(|| "it is being read".to_owned());
            let path = self.0.path.display();
            Error::Connect { reason: format!("there is no token in {path}: {fault}") }
        })
    }

    /// Records that the server refused `sent`. Returns whether there is another token now.
    pub(super) async fn has_another_than(&self, sent: &HeaderValue) -> bool {
        let held = self.0.held.load_full().filter(|held| held.header == *sent);
        if let Some(held) = held {
            self.0.refused.store(Some(held));
        }
        let _ = self.look().await; // on failure the token stays
        self.0.held.load().as_ref().is_some_and(|held| held.header != *sent)
    }

    /// Resolves when there is a token that the server has not refused.
    pub(super) async fn renewed(&self) {
        loop {
            sleep(LOOK_EVERY).await;
            let _ = self.look().await; // on failure the token has not changed
            let (held, refused) = (self.0.held.load(), self.0.refused.load());
            let header = |held: &Arc<LoadedToken>| held.header.clone();
            if held.is_some() && held.as_ref().map(header) != refused.as_ref().map(header) {
                return;
            }
        }
    }

    /// The secrets to redact: the current token, the previous one, and the refused one.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        let all = [&self.0.held, &self.0.before, &self.0.refused].map(ArcSwapOption::load_full);
        all.into_iter().flatten().map(|held| held.token.clone()).collect()
    }

    /// Reads the file if that is due. One of several concurrent callers reads it.
    async fn look_if_due(&self) -> Result<(), String> {
        let (due, now) = (self.0.due.load(Ordering::Relaxed), millis(self.0.made.elapsed()));
        let next = now + millis(LOOK_EVERY);
        let take = || self.0.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        let is_mine = now >= due && take().is_ok();
        // Nothing can be sent without a token, so every caller reads the file.
        if is_mine || self.0.held.load().is_none() { self.look().await } else { Ok(()) }
    }

    async fn look(&self) -> Result<(), String> {
        let late = |_| format!("it could not be read within {} s", LOOK_LIMIT.as_secs());
        let turn = timeout(LOOK_LIMIT, Arc::clone(&self.0.looking).lock_owned()).await.map_err(late)?;
        let path = self.0.path.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            read(&path)
        });
        let read = timeout(LOOK_LIMIT, reading).await.map_err(late)?;
        let held = read.unwrap_or_else(|_| Err("it could not be read".to_owned()))?;
        let is_new = self.0.held.load().as_ref().is_none_or(|before| before.header != held.header);
        if is_new {
            self.0.before.store(self.0.held.swap(Some(Arc::new(held))));
        }
        Ok(())
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile").finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<LoadedToken, String> {
    let content = regular_file::read(path, MAX_BYTES).map_err(|error| error.to_string())?;
    let content = Zeroizing::new(content);
    let text = std::str::from_utf8(&content).map_err(|_| "it is not UTF-8")?;
    let token = SecretString::from(text.trim());
    if token.expose_secret().is_empty() {
        return Err("it is empty".to_owned());
    }
    let header = HeaderValue::from_str(&Zeroizing::new(format!("Bearer {}", token.expose_secret()))).ok();
    let header = header.filter(|_| token.expose_secret().is_ascii());
    let mut header = header.ok_or("it is not one line of ASCII characters")?;
    header.set_sensitive(true);
    Ok(LoadedToken { token, header })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, PathBuf, TokenFile) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, text).expect("written");
        (folder, path.clone(), TokenFile::new(path))
    }

    async fn sent(token: &TokenFile) -> Result<String, Error> {
        token.header().await.map(|value| value.to_str().expect("ASCII").to_owned())
    }

    #[tokio::test]
    async fn token_of_the_file_is_sent_and_read_again_in_time() {
        let (_folder, path, token) = file("  one\n");
        assert_eq!(sent(&token).await.as_deref(), Ok("Bearer one"));
        std::fs::write(&path, "two").expect("written");
        assert_eq!(sent(&token).await.as_deref(), Ok("Bearer one"), "not with each request");
        tokio::time::pause();
        tokio::time::advance(LOOK_EVERY).await;
        tokio::time::resume();
        assert_eq!(sent(&token).await.as_deref(), Ok("Bearer two"));
        std::fs::remove_file(&path).expect("it is there");
        tokio::time::pause();
        tokio::time::advance(LOOK_EVERY).await;
        tokio::time::resume();
        assert_eq!(sent(&token).await.as_deref(), Ok("Bearer two"), "it may be written anew just now");
    }

    #[tokio::test]
    async fn where_there_is_no_token_nothing_is_sent_and_nothing_of_the_file_shown() {
        let long = "x".repeat(70_000);
        for (text, expected) in [
            ("", "empty"),
            (" \n", "empty"),
            ("canary\ncanary", "one line"),
            ("canary\u{7}", "one line"),
            ("canáry", "one line"),
            (long.as_str(), "larger"),
        ] {
            let (_folder, path, token) = file(text);
            let refused = sent(&token).await.expect_err("no token").to_string();
            assert!(refused.contains(expected) && refused.contains("token"), "{text:.9}: {refused}");
            assert!(!refused.contains("canary") && !format!("{token:?}").contains("canary"), "{refused}");
            std::fs::write(&path, "better").expect("written");
            assert_eq!(sent(&token).await.as_deref(), Ok("Bearer better"), "at once");
        }
        let folder = TokenFile::new("/dev/null".into());
        assert!(sent(&folder).await.expect_err("no file").to_string().contains("not a regular file"));
        let missing = TokenFile::new("/nonexistent/token".into());
        assert!(sent(&missing).await.expect_err("no file").to_string().contains("No such file"));
    }

    #[tokio::test]
    async fn one_that_is_refused_is_waited_for_to_change() {
        let (_folder, path, token) = file("one");
        let one = token.header().await.expect("one");
        assert!(!token.has_another_than(&one).await);
        let mut waits = std::pin::pin!(token.renewed());
        for _ in 0..3 {
            tokio::time::pause();
            tokio::time::advance(LOOK_EVERY).await;
            tokio::time::resume();
            let some_time = Duration::from_millis(20);
            assert!(tokio::time::timeout(some_time, waits.as_mut()).await.is_err(), "it is the same");
        }
        std::fs::write(&path, "two").expect("written");
        assert!(token.has_another_than(&one).await);
        let known: Vec<_> = token.secrets().iter().map(|secret| secret.expose_secret().to_owned()).collect();
        assert_eq!(known, ["two", "one", "one"]);
        tokio::time::timeout(LOOK_EVERY * 2, waits).await.expect("in time");
    }
}

//! A log output for tests.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// Collects the written text. Clones share it.
#[derive(Clone, Default)]
pub struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    /// All text that was written so far.
    ///
    /// # Panics
    /// If a writer panicked, or wrote text that is not UTF-8.
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("UTF-8")
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

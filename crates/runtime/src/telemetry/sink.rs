//! Where the log of a test goes.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// Keeps what is written. Clones are the same one.
#[derive(Clone, Default)]
pub struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    /// All that was written so far.
    ///
    /// # Panics
    /// If a writer panicked, or wrote what is no text.
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

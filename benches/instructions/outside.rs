//! Excludes the work of client and server from the counted instructions of the gateway.
//!
//! `scripts/budget` gives the names of the two functions to callgrind (`--toggle-collect`). Counting begins
//! with [`counted`], and each call of [`outside`] turns it off and on again. Therefore neither may be
//! inlined, and `outside` must not be called within itself.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A task of the client or the server.
#[derive(Debug)]
pub struct Outside<F>(Pin<Box<F>>);

impl<F: Future> Outside<F> {
    /// Runs `task` without counting it.
    pub fn of(task: F) -> Self {
        Self(Box::pin(task))
    }
}

impl<F: Future> Future for Outside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut work = || self.0.as_mut().poll(cx);
        // Outside of the counted part, counting is off, and `outside` would turn it on.
        if COUNTED.get() { outside(work) } else { work() }
    }
}

thread_local! {
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

#[inline(never)]
fn outside<T>(work: impl FnOnce() -> T) -> T {
    std::hint::black_box(work())
}

/// Runs `work` and counts it, except for the parts in `outside`.
pub fn count<T>(work: impl FnOnce() -> T) -> T {
    COUNTED.set(true);
    let done = counted(work);
    COUNTED.set(false);
    done
}

#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    std::hint::black_box(work())
}

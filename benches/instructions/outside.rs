//! What is not the gateway's work: client and server run through here, and the counting stops meanwhile.
//!
//! `scripts/budget` names the two functions to callgrind (`--toggle-collect`): counting goes on where
//! [`counted`] begins, and off and on again with each call of [`outside`]. Hence neither may be inlined, and
//! `outside` must not be called within itself.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A task of the client's or the server's.
#[derive(Debug)]
pub struct Outside<F>(Pin<Box<F>>);

impl<F: Future> Outside<F> {
    /// Lets `task` run without being counted.
    pub fn of(task: F) -> Self {
        Self(Box::pin(task))
    }
}

impl<F: Future> Future for Outside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut work = || self.0.as_mut().poll(cx);
        // Before and after, counting is off, and `outside` would turn it on.
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

/// Runs `work`, which is counted but for what is `outside`.
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

//! Which worker of the program a piece of code runs on.
//!
//! The program serves its clients on a few threads, each with a runtime, connections and idle upstream
//! connections of its own, so that a call begins and ends on one thread. What is kept per worker asks
//! here for its number. In a program that embeds the crate, and in tests, everything is worker 0.
//!
//! Not here: starting workers (`app`).

use std::cell::Cell;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// The number of the worker whose thread this is, from 0.
pub fn current() -> usize {
    NUMBER.get()
}

/// Makes this thread the worker `number`, for as long as it lives.
pub fn become_worker(number: usize) {
    NUMBER.set(number);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_worker_0_until_it_is_told_otherwise() {
        let other = std::thread::spawn(|| {
            assert_eq!(current(), 0);
            become_worker(3);
            current()
        });
        assert_eq!((other.join().expect("it ended"), current()), (3, 0));
    }
}

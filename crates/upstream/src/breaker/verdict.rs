//! The meaning of the result of an attempt for the circuit breaker.

use crate::error::{Delivery, Error};

/// The meaning of a result for the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The server answered.
    Success,
    /// The call failed: silence, an invalid answer, or a 5xx that counts ([`Error::trips_breaker`]).
    Failure,
    /// The connection failed, possibly with many calls.
    ConnectionFault,
    /// The result says nothing about the server: Switchyard refused the call, or the caller left.
    Nothing,
}

impl Verdict {
    pub(super) fn of<T>(result: &Result<T, Error>) -> Self {
        match result {
            Ok(_) => Self::Success,
            Err(Error::Connect { .. } | Error::NotSent { .. } | Error::Lost { .. } | Error::Cut { .. }) => {
                Self::ConnectionFault
            }
            Err(error) if error.trips_breaker() => Self::Failure,
            // HTTP 404 or 429, or a response that is too large: the server answers.
            Err(error) if error.delivery() == Delivery::Answered => Self::Success,
            Err(_) => Self::Nothing,
        }
    }
}

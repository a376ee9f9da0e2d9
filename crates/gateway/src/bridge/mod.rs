//! Requests of servers where client and server speak different protocol eras.
//!
//! | | server legacy | server modern |
//! |---|---|---|
//! | client legacy | the request passes on the stream of the call | [`legacy_client`] asks the client and makes the call again |
//! | client modern | [`modern_client`] answers `input_required`; the call waits in [`suspended_calls`] | the request passes in the result |
//!
//! Does not translate results and lists between the eras, which `era` does.

pub(crate) mod legacy_client;
pub(crate) mod modern_client;
pub(crate) mod suspended_calls;

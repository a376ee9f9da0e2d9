//! Attacks that succeeded once, each repeated against the running program: its cost must now stay bounded.
//!
//! Every test prints the figure that it asserts. The tests of this folder measure time and memory of the process,
//! so each one runs alone (`.config/nextest.toml`).

mod audit;
mod browsers;
mod bulk;
mod charged;
mod control;
mod edge;
mod fairness;
mod hostile;
mod lists;
mod logging;
mod memory;
mod names;
mod one_caller;
mod processes;
mod second;
mod sharing;
mod socket_shares;
mod sockets;
mod streams;
mod takeover;
mod unrequested;

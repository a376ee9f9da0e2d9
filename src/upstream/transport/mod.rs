//! The ways to reach a server, each in its own file.

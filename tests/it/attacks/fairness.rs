//! Servers that flood or hang: how much the calls to other servers slow down.

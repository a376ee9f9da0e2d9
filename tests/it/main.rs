//! Integration tests: the whole program through real sockets and pipes.
#![allow(unreachable_pub)] // a test binary exports nothing
#![allow(dead_code, unused_imports)] // until the program serves, only a part of the support is used

mod config;
mod orphans;
mod support;
mod support_tests;
mod transcripts;

//! Integration tests: the whole program through real sockets and pipes.
#![allow(unreachable_pub)] // a test binary exports nothing

mod attribution;
mod audit;
mod bad_input;
mod calls;
mod changed_tools;
mod config;
mod credentials;
mod deploy;
mod down;
mod ends;
mod every_method;
mod fidelity;
mod flows;
mod limits;
mod logs;
mod orphans;
mod peers;
mod places;
mod r2r;
mod r2r_tools;
mod rag;
mod redis;
mod reload;
mod rest;
mod revoked;
mod scheduling;
mod sdk;
mod secrets;
mod serving;
mod sockets;
mod streams;
mod support;
mod support_tests;
mod tool_cache;
mod transcripts;

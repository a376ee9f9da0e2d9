//! Tests of registration.

//! The configuration file as a whole.

//! The only place where all parts meet.

//! Who is asking: credentials to principals.

//! Child processes: what they can read of the gateway, and whether they outlive it.

//! Towards operators and programs: the REST API.

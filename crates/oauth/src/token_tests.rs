//! Tests of the requests to a token endpoint.

//! Integration tests: the whole program through real sockets and pipes.

//! Logs: a log reader that stops, and clients that produce log lines.

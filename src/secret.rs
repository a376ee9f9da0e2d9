//! Secrets: values that never reach a log, an error or an answer.

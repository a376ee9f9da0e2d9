//! Arguments that a view gives: what clients see, and what the server gets.

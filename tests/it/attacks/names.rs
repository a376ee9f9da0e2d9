//! Names and URIs: servers that list what belongs to another server, and lists that are expensive to read.

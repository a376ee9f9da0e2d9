//! Towards MCP clients: transports, sessions, and the guard at the door.

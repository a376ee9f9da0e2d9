//! What each MCP method means at a gateway.

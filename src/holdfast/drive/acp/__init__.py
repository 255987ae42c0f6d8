"""The Agent Client Protocol, spoken over files: the JSON-RPC side is ours and survives a restart."""

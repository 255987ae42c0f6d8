"""Real agents, pinned, against a fake model, without a network."""

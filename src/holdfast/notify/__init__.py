"""People are told: which events are worth it, when, and over which channel."""

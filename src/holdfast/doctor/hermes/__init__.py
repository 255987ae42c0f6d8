"""The doctor of hermes-webui: its sidecars mended from every copy there is of a session."""

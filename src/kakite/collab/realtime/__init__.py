"""Live connections to a document: sync and awareness of Yjs."""

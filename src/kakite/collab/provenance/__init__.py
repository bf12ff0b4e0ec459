"""Who wrote which passage of a document."""

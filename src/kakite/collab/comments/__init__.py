"""Comments on passages of a document."""

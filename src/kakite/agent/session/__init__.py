"""Sessions: a person and a model work together, in the person's own folder."""

"""The tools that the model gets in a run."""

"""What the model is told: a file for each."""

from kakite.phrases import phrases

prompt = phrases("kakite.collab", stripped=True)
"""Returns the text of ``prompts/NAME.md``."""

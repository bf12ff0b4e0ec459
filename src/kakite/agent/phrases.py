"""What the model is told in words of ours: a file for each."""

from kakite.phrases import phrases

prompt = phrases("kakite.agent")
"""Returns the text of ``prompts/NAME.md``."""

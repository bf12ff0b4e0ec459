"""What the sides of a debate are told in words of ours: a file for each."""

from kakite.phrases import phrases

prompt = phrases("kakite.debate", stripped=True)
"""Returns the text of ``prompts/NAME.md``."""

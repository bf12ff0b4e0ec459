"""``kakite edit replay``: counts what Kakite would have made of the edits in transcripts."""

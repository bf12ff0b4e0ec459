"""The dashboard of ``kakite agent web``: shows what the agent does and takes answers to its questions."""

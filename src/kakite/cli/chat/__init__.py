"""``kakite chat``: a session at the terminal, or for a program."""

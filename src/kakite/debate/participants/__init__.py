"""The kinds of participants: command-line programs, models, remote ones."""

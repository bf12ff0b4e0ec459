"""The agent on an issue: triage, commands in comments, and the comments it writes."""

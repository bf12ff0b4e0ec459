"""Forges (GitHub, GitLab, or a local folder) behind one interface: issues in, pull requests out."""

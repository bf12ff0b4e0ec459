"""Serves pages that people and an assistant write together.

``shared_text`` has the text, ``suggestions`` the proposed changes, ``assistant`` the assistant's runs.
Importing this package needs no extra; its modules need ``kakite[collab]``.
"""

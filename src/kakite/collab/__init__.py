"""A page that people and an assistant write together.

``shared_text`` owns the text, ``suggestions`` what is proposed for it, ``assistant`` who proposes. Importing
this package needs no extra; its modules need ``kakite[collab]``.
"""

"""Debates: coding CLIs answer the same question and criticise each other, a person decides how to go on.

``protocol`` says whose move it is, ``bridge`` performs it, ``turns`` tells it to an editor's model.
"""

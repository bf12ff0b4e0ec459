"""The shared page: people and an assistant write one text. Importing this needs no extra."""

"""Durable workflows in one folder, on DBOS and SQLite."""

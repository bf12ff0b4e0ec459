"""Fake providers, forges and coding CLIs, and workflows in memory, for tests of what builds upon kakite."""

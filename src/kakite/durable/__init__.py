"""Durable workflows: each step is recorded, and any process can continue. Knows nothing of coding."""

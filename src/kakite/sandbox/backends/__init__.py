"""The kinds of sandbox: none, bubblewrap, and containers."""

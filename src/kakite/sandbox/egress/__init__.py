"""The network of a sandbox: what it may reach, and the proxy that carries it."""

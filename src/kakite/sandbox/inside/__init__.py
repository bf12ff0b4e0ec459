"""Programs that run inside of a sandbox: scripts of their own, on the standard library alone."""

"""Git for the agent: the work tree in the sandbox and the mirror on the host."""

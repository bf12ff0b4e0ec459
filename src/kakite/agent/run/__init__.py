"""One run of the agent: its state, the state machine, and the loop that drives it."""

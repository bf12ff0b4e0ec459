"""What a run reports: events, logs, exports and traces."""

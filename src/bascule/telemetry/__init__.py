"""What a running gateway tells its operator: log lines, metrics, traces. Never a secret or content."""

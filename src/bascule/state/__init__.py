"""What outlives a turn: stored responses and their items."""

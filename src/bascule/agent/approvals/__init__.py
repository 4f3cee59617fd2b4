"""What may run, what is asked about, and what never runs."""

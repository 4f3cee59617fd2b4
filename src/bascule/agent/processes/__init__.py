"""Commands as processes: started, listened to, written to, and ended for certain."""

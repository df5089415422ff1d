"""What changes, as it changes: the stream of events, and the overview."""

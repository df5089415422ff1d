"""``/api/v1``: what was recorded and what runs, as JSON, for the console and for scripts."""

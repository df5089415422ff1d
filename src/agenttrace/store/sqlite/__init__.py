"""The default engine: one SQLite file."""

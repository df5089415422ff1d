"""Rules: recorded events start actions, each exactly once."""

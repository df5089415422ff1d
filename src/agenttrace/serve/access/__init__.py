"""Who may look at the console: users, logins, the gate in front of it, and the log of what was changed."""

"""Access to the console: users, logins, API tokens, the gate in front of it, and the audit log."""

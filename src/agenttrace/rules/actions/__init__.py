"""Actions of rules: chains of applications, webhooks, notifications, commands."""

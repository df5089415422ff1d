"""The push of a machine to a team's server: its rows, at which level they are shared, and how they are sent."""

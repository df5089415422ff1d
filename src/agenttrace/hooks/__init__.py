"""Hooks in the settings of agents: what is written there, and taken out again."""

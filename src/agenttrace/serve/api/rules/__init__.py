"""Endpoints about rules."""

"""Recorded things in the shapes that ``--json`` and the HTTP API share; knows neither terminals nor requests."""

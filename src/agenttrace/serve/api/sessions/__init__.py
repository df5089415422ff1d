"""Recorded sessions: lists, details, spans, texts, search, usage and downloads."""

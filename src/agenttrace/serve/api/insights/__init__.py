"""Insights: tools, models and findings over many sessions."""

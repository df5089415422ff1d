"""OTLP in: spans that programs send over HTTP, kept in a log that the recorder reads like any agent's."""

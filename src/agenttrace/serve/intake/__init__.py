"""OTLP in: spans that programs send over HTTP, written to a log that the recorder reads like any agent's."""

"""The ClickHouse engine of the trace store: the store of a large team."""

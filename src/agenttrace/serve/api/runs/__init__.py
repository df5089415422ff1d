"""The run half: jobs, calls, guards, cached results, the catalog and a chat for trying it."""

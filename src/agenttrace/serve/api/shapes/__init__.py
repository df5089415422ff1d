"""The JSON shapes of ``/api/v1`` by area, one struct each: OpenAPI and the console's TypeScript types are made of them.

Times are ISO 8601 in UTC; only the timeline has microseconds. The id of a session is its ``key``: sixteen hexadecimal
digits that are the same after every rebuild. What commands print in the same shape is defined in ``views/``.
"""

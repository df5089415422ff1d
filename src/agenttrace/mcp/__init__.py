"""The recorded past as tools of the Model Context Protocol: an agent looks at it, and can change nothing."""

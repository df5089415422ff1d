"""A session as one file for other people: HTML, Markdown or its lines, masked unless asked otherwise."""

"""The full-screen view of a terminal: bare ``agenttrace``. Only these modules import Textual."""

"""The server of a team: takes the rows of machines, and keeps search and outcomes of them up to date."""

"""The routes: each parses, calls and answers."""

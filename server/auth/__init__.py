"""Who may use the server: API keys, and whose jobs are whose."""

"""The wire formats: reading requests into conversations, writing replies and errors."""

"""The real harness: its composition, its process, what is asked of it and what it leaves."""

"""The report of a run: words, tables and figures. Its numbers are those of `results.summary`, taken from traces."""

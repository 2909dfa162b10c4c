"""What is made of traces: the trace format, metrics, statistics and reports."""

"""What drives a model through a scenario: the command line, the gateway and the harness runners."""

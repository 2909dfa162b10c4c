"""What other products do against tool loops, as policies: one module a detector, to be compared on the same traces."""

"""Loop guards as pure decision cores: no input or output, no clock, no model."""

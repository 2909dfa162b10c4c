"""Scripted tasks: prompt, tools, deterministic world and the judge of what each call was worth."""

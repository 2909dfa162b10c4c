"""GGUF models and scripted actors behind the wire formats that harnesses speak."""

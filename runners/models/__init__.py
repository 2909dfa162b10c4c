"""GGUF models by name or path: the catalogue, their headers, the cache and the sources they are pulled from."""

"""The failure of a source, which is no mistake of the user's."""


class FetchError(Exception):
    """A source could not be reached, or sent something else than was asked for. The text is one line."""

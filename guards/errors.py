"""The one exception type for mistakes that a user can correct."""


class UserError(Exception):
    """A mistake in input or configuration: the command line prints the text alone and exits with 2.

    The text is one line and says what is wrong, where, and what to do. Anything else that is raised is a bug or
    a failure of the machine, and is never caught in its place.
    """

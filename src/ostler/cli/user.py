"""Who is at this command line, for those who see what was done or typed."""

import os


def user_name() -> str:
    """By USER, else as the system knows the user."""
    if name := os.environ.get("USER"):
        return name
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id that is in no list, as in some containers
        return "owner"

"""Somebody at a terminal."""

import io


class Person(io.StringIO):
    """What they type; when it is over they press Ctrl-D."""

    def isatty(self) -> bool:
        return True

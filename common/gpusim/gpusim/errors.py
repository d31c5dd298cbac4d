"""What ends a command."""

from __future__ import annotations


class SimError(Exception):
    """Ends the command with a message. @param status  2: the request is unusable, or the program has failed"""

    def __init__(self, message: str, status: int = 2):
        super().__init__(message)
        self.status = status

"""What ends a command."""

from __future__ import annotations


class SimError(Exception):
    """Ends the command with a message.

    @param status          2: the request is unusable, or the program has failed
    @param is_of_compiler  the message is that of the compiler
    """

    def __init__(self, message: str, status: int = 2, *, is_of_compiler: bool = False):
        super().__init__(message)
        self.status = status
        self.is_of_compiler = is_of_compiler

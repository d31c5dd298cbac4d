"""Which part of many cases to try: an environment variable may ask for every N-th of them."""

import os
import re
import sys


def chosen(cases: list, variable: str) -> list:
    """Every N-th, from the K-th on, if the environment variable is K/N; all if it is not set. Exits if it is
    anything else.
    """
    part = os.environ.get(variable, "1/1")
    numbers = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", part)
    if not numbers or int(numbers[1]) > int(numbers[2]):
        sys.exit(f"{variable} is '{part}': must be K/N, with K from 1 to N")
    first, step = map(int, numbers.groups())
    return cases[first - 1 :: step]

"""A recording of a kernel in the simulator, as one self-contained page: python3 -m tools.watch RECORDING
PAGE.
"""

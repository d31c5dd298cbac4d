"""gdb for kernels on the simulator: gdb -x common/gpusim/gdb.py --args PROGRAM ARGUMENT...

Sets GPUSIM_DEBUG, stops at each defect in the kernel's own frame, and says at each stop which simulated thread it is.
"""

from pathlib import Path

import gdb

RUNTIME = ("/gpusim/runtime/", "/gpusim/shim/")  # the simulator's own files

# gdb --interpreter=mi, as editors start it: they need gdb's own message about the breakpoint.
IN_EDITOR = b"=mi" in Path("/proc/self/cmdline").read_bytes()


def is_runtime(frame):
    """Whether the frame is the simulator's, or has no source file."""
    symtab = frame.find_sal().symtab
    return symtab is None or any(part in symtab.fullname() for part in RUNTIME)


def triple(name):
    index = gdb.parse_and_eval(name)
    return ",".join(str(int(index[axis])) for axis in "xyz")


class Defect(gdb.Breakpoint):
    """Stops where the simulator reports a defect, and shows the kernel's line."""

    def __init__(self):
        super().__init__("gpusim_defect")
        self.silent = not IN_EDITOR


def show_kernel():
    """Selects the innermost frame of the kernel, and shows it."""
    frame = gdb.newest_frame()
    while frame is not None and is_runtime(frame):
        frame = frame.older()
    if frame is not None:
        frame.select()
    gdb.execute("frame")


def in_kernel():
    """Whether this CPU thread runs a simulated thread."""
    frame = gdb.newest_frame()
    while frame is not None and "BlockRunner::fiber_main" not in (frame.name() or ""):
        frame = frame.older()
    return frame is not None


said = None


def on_stop(event):
    """Says which simulated thread it is, when that changes."""
    global said
    if in_kernel():
        where = f"[thread ({triple('threadIdx')}) of block ({triple('blockIdx')})]"
        if where != said:
            print(where)
        said = where
    if any(isinstance(b, Defect) for b in getattr(event, "breakpoints", ())):
        show_kernel()


for command in (
    "set environment GPUSIM_DEBUG 1",
    "set print inferior-events off",
    "set print thread-events off",
    "handle SIGFPE nostop noprint pass",  # the simulator looks at each: runtime/local_reads.hpp
    *(f"skip -gfi *{part}*" for part in (*RUNTIME, "/c++/")),  # `step` stays in kernels
):
    gdb.execute(command, to_string=True)
Defect()
gdb.events.stop.connect(on_stop)

"""gdb for kernels on the simulator: gdb -x common/gpusim/gdb.py --args PROGRAM ARGUMENT...

Sets GPUSIM_DEBUG, stops at each defect in the kernel's own frame, and says at each stop which simulated
thread it is. `bt` leaves out the frames of the simulator, of the harness and of libraries; `bt -no-filters`
shows them.
"""

import re
from pathlib import Path

import gdb
from gdb.FrameDecorator import FrameDecorator

RUNTIME = ("/gpusim/runtime/", "/gpusim/shim/")  # the simulator's own files
LIBRARIES = ("/c++/", "/boost/", "/usr/include/", "/usr/src/")
HARNESS = ("/common/harness/", "/common/attention/")  # what launches the kernels of chapters

# gdb --interpreter=mi, as editors start it: they need gdb's own message about the breakpoint.
IN_EDITOR = b"=mi" in Path("/proc/self/cmdline").read_bytes()


def is_in(frame, folders):
    """Whether the frame's source file is in one of the folders, or it has none."""
    symtab = frame.find_sal().symtab
    return symtab is None or any(part in symtab.fullname() for part in folders)


class Function(FrameDecorator):
    """A frame whose function has a short name: without template arguments, parameter types and ABI tags."""

    def function(self):
        name = super().function()
        if not isinstance(name, str) or "operator" in name:
            return name
        name = re.sub(r"\[abi:\w+\]", "", name)
        while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)( const)?$", "", name)) != name:
            name = shorter
        return name


class OwnFrames:
    """The filter of `bt`: frames of the program, not of what calls its kernels or of what these call."""

    def __init__(self):
        self.name, self.priority, self.enabled = "own", 100, True
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        hidden = 0
        for frame in frames:
            if is_in(frame.inferior_frame(), (*RUNTIME, *LIBRARIES, *HARNESS)):
                hidden += 1
            else:
                yield Function(frame)
        if hidden:
            frames = "1 frame" if hidden == 1 else f"{hidden} frames"
            print(f"({frames} of the simulator and of libraries: bt -no-filters)")


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
    while frame is not None and is_in(frame, (*RUNTIME, *LIBRARIES)):
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
    defect = any(isinstance(b, Defect) for b in getattr(event, "breakpoints", ()))
    crash = isinstance(event, gdb.SignalEvent) and in_kernel()
    if defect or (crash and is_in(gdb.newest_frame(), (*RUNTIME, *LIBRARIES))):
        show_kernel()


for command in (
    "set environment GPUSIM_DEBUG 1",
    "set max-value-size unlimited",  # the tiles of a block
    "set print inferior-events off",
    "set print thread-events off",
    "handle SIGFPE nostop noprint pass",  # the simulator looks at each: runtime/local_reads.hpp
    *(f"skip -gfi *{part}*" for part in (*RUNTIME, *LIBRARIES)),  # `step` stays in kernels
):
    gdb.execute(command, to_string=True)
Defect()
OwnFrames()
gdb.events.stop.connect(on_stop)

"""gpusim: runs CUDA programs on the CPU, checks them, and counts what they move."""

"""The tools around the C++ code: the learner's command, reports, benchmarks, profiles, documentation. They
prefer the standard library.
"""

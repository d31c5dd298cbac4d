"""What surrounds the C++: the learner's command, reports, benchmarks, profiles, documentation. Standard library first."""

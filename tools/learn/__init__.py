"""The modules behind ./learn: terminal, packages, machine, project, phases, exercises."""

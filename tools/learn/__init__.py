"""What the learner's command is made of: terminal, packages, machine, project, phases."""

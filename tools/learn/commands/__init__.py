"""The subcommands, one module each.

A module has HELP, its line in `--help`; add_options(parser); and main(console, args), which
returns the exit status. learn.cli.COMMANDS lists the modules.
"""

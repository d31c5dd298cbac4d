"""The subcommands, a module for each.

A module has HELP, what `--help` says of it; add_options(parser); and main(console, args), which
returns the exit status. learn.cli.COMMANDS names the modules.
"""

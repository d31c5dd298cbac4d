"""Turns the chapters' JSON into the table of `./learn run` and into build/report.html."""

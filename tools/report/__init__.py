"""From the chapters' JSON to the table of `./learn run` and to build/report.html."""

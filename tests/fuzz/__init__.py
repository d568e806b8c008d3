"""Broken inputs for every reader: `python -m tests.fuzz --inputs 100000`."""

"""A file that is still written: each byte is read once, and a cut reads as the whole would."""

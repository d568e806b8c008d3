"""Delimited text: CSV and TSV, by columns where the file allows it."""

"""JSON: lines, documents, the states of trainers."""

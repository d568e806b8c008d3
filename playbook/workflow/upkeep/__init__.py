"""Keeping the book: lint, learning from incidents, the fit to published reports, mutation, templates."""

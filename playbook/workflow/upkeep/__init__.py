"""Keeping the book: lint, learning from incidents, mutation, templates."""

"""Logs in text: what each trainer prints, and what any log may hold."""

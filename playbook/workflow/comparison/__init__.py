"""Two runs side by side: comparison and the check of a resume."""

"""Quiz, interview and drill as they are shown, asked and printed."""

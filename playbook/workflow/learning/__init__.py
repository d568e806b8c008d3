"""People who learn: quiz, interview and drill."""

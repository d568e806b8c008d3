"""Page models: what every page says and in which order, as plain data. No HTML, no terminal codes."""

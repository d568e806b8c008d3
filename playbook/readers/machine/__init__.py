"""The machine's own files: kernel logs, GPU tools, counters of cards and links."""

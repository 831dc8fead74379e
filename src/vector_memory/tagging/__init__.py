"""Tags and categories: what may be one, which two mean the same, how much one says; the vocabulary in use (seed 004)."""

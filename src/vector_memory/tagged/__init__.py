"""Tags and categories: what may be one, which two mean the same, what one says; the vocabulary in use."""

"""Results of all tools, and what fits into an answer."""

"""Tagged memories: notes with categories and tags, and the vocabulary of tags in use."""

"""Reading memories: documents, contexts, changes, recaps, reviews, exports."""

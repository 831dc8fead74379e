"""Derives search data from a text: chunks, terms, passages and vectors."""

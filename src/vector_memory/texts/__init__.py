"""Texts: cutting them into chunks and passages, counting tokens, splitting into terms, removing secrets."""

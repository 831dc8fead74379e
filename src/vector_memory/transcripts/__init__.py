"""Reads the transcripts that clients keep of their sessions, and stores what is worth remembering of them."""

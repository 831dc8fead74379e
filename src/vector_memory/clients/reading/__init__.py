"""Reads the clients' transcripts of their sessions, and stores what is worth remembering."""

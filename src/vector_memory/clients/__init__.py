"""The clients of this server: their configuration, and what they keep of their sessions."""

"""What keeps a memory in order: missing vectors, another model, copies, transfer, health, the session page."""

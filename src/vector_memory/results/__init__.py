"""What every tool answers."""

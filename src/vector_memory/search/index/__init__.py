"""What a process keeps of the memory in RAM, so that searches need not read it again."""

"""The files of the embedding model all-MiniLM-L6-v2, in the folder of that name. There is no code here."""

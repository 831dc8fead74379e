"""The storage engine over a schema of a PostgreSQL database with pgvector."""

"""The SQLite file: the only package that knows SQL. Rows become named values before they leave it."""

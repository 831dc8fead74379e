"""From a text to what makes it findable: chunks, terms, passages and vectors."""

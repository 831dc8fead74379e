"""Several teams on one server: namespaces, each with its own memory, and the tokens that open them."""

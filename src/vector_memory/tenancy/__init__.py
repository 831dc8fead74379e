"""Several teams on one server: namespaces, each with a memory of its own, and the tokens that open them."""

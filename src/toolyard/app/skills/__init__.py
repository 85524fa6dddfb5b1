"""Skills of one open workspace: who sees which, keeping them for code in the sandbox, trying and counting them."""

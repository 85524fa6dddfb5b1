"""Files, reached only through directory handles. A path is never resolved first and opened later."""

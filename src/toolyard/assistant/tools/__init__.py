"""The implementations of the assistant's six tools, one module each."""

"""The assistant server: gives an agent second opinions from another model."""

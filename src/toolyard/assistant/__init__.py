"""The assistant server: a second model inside the agent that people already use."""

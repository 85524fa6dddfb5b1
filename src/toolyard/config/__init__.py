"""From YAML and the environment to typed settings. Only `settings` reads the environment."""

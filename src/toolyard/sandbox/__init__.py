"""Running commands and code so that they cannot get out."""

"""`toolyard install` and `toolyard uninstall`."""

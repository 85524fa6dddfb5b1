"""The implementation of what `toolyard` exports and no other package provides. Import the names from `toolyard`."""

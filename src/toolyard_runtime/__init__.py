"""What runs inside a Toolyard sandbox. Standard library only, and quick to start.

`warden` is the program a sandbox starts; it forks a worker for each run. Nothing here imports `toolyard`: the two
packages share the wire format (`wire`) and live on different sides of the wall.
"""

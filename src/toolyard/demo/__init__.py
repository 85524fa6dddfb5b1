"""`toolyard demo`: a scripted agent's session with the real server, in a workspace made for it."""

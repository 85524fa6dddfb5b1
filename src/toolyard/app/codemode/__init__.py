"""Code mode, composed: the one way upstream and custom tools are called, and what answers the broker."""

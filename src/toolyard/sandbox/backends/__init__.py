"""One module per sandbox backend: bubblewrap, Docker, namespaces, Landlock, unsandboxed."""

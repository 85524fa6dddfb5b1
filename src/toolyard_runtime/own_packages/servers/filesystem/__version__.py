__version__ = "0.1.0"
__mcp_server__ = "filesystem"
__fingerprint__ = "64e35627f516a37b17826d4656fdc42caa55f8fdcfa9f1b1e44d0bb3574d0343"

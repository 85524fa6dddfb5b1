"""The six tools, one file each: from arguments and a Case to an Output."""

"""The commands beside serve, demo and poll: a file each."""

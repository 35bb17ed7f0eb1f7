"""Object stores: memory, local directories and clouds, behind one protocol."""

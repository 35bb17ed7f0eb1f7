"""The Lake protocol on a store that this process reaches."""

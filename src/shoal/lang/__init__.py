"""The Zed language: text to plan."""

"""Who asks, and whether they may: tokens of the lake, tokens of an identity provider, grants."""

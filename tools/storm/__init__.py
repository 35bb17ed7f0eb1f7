"""The storm: random work on one lake by processes that are killed, over a store that fails, and a check of it all.

`python -m tools.storm` runs it. The workers (`work`, `reads`, `damage`) use Shoal like anyone else and log what they
attempt. The checker (`check`, `raw_lake`, `zng`) reads the files of the lake by `docs/format.md` and shares no code
with Shoal, so a mistake in the lake cannot hide in it. `rows` and `attempts` are what both sides know.
"""

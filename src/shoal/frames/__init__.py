"""Results and inputs in the shapes that Python code uses: plain objects, Arrow, pandas, Polars."""

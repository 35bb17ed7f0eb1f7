"""What each route does."""

"""The page, and the same as JSON: an ASGI application over a store."""

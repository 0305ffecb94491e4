"""The API: what the page shows and does, as JSON, in the documents of the command line.

One table of endpoints is the source of all: the routes, what is checked before a handler sees it, and the OpenAPI
document at /api/v1/openapi.json.
"""

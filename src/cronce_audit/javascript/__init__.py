"""JavaScript and TypeScript: jobs that run in every process of Node, and locks made by hand against it."""

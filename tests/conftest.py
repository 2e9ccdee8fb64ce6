"""Lists fixture plugins, nothing else."""

pytest_plugins = [
    "fixtures.catalogs",
    "fixtures.lakes",
    "fixtures.migrations",
    "fixtures.properties",
    "fixtures.scoped",
    "fixtures.scopes",
    "fixtures.stores",
]

"""Lists fixture plugins, nothing else."""

pytest_plugins = [
    "fixtures.catalogs",
    "fixtures.lakes",
    "fixtures.migrations",
    "fixtures.properties",
    "fixtures.scopes",
    "fixtures.stores",
]

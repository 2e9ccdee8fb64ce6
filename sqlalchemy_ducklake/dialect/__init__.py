"""The SQLAlchemy dialect of a lake."""

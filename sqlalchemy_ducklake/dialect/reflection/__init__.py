"""Reading back what a lake holds: names, tables, columns, keys and constraints."""

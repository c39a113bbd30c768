"""torch.nn: Parameter, which torch/__init__.py puts here."""

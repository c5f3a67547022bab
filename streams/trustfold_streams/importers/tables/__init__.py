"""The tables that ship with the product, as TOML files; `importers.tables` reads them."""

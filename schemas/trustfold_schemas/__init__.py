"""What trustfold writes down: shapes, codecs and errors. Imports msgspec only."""

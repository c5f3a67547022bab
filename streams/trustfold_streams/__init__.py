"""What moves: everything of trustfold that has a socket, a file lock or a clock."""

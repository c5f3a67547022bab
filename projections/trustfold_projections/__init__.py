"""What the log means: scores, tables and answers as functions of the log."""

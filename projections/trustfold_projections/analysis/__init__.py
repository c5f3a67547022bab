"""What an auditor and an analyst ask of a log: any score at any moment, proofs, comparisons."""

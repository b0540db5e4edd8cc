"""Speed, measured: engines against a per-client PyTorch loop and against what the machine can do."""

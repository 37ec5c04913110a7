"""What a run has finished, made durable within a second of it: frames, segments of them, and the thread that writes.

    rows, steps -> Committer (thread) -> Journal -> NNNNN.wal -> results/part-NNNNN.parquet, requests, steps

Knows Arrow tables, and neither rows nor final forms.
"""

-- Only the pruning of changes asks for their times, once in an hour, and every write would pay for the index.
DROP INDEX changes_at;

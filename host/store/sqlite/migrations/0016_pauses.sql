-- How long the pause before next_try was, in nanoseconds: the clock may have been set back since. 0: not known.
ALTER TABLE outbox ADD COLUMN pause INTEGER NOT NULL DEFAULT 0;

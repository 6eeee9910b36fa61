-- What sessions that are gone have outside of the store, or on its way, until that is gone as well.
CREATE TABLE leftovers (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- What was noted in a turn is found by the turn.
CREATE INDEX notes_turn ON notes (turn) WHERE turn <> '';

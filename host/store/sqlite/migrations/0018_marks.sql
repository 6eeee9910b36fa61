-- How far work that goes through a table from its beginning has come, by the name of the work.
CREATE TABLE marks (
  name TEXT PRIMARY KEY,
  upto INTEGER NOT NULL
) WITHOUT ROWID;

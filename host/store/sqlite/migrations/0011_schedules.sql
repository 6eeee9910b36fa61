-- Turns that other turns have delegated. A call makes one at most.
ALTER TABLE turns ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN parent_call TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN background INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX turns_parent ON turns (parent, parent_call) WHERE parent <> '';

CREATE TABLE schedules (
  name     TEXT PRIMARY KEY,
  timing   TEXT NOT NULL,
  upto     INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  paused   TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE schedule_runs (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  schedule TEXT NOT NULL,
  event    TEXT NOT NULL,
  due      INTEGER NOT NULL,
  state    TEXT NOT NULL,
  count    INTEGER NOT NULL,
  note     TEXT NOT NULL,
  at       INTEGER NOT NULL,
  UNIQUE (schedule, event)
);
CREATE INDEX schedule_runs_open ON schedule_runs (id) WHERE state IN ('due', 'made');

-- Turns that other turns have delegated. A call makes one at most.
ALTER TABLE turns ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN parent_call TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN background INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX turns_parent ON turns (parent, parent_call) WHERE parent <> '';

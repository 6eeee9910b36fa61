-- Who has mended the text of a note since it was written, and when; mended is 0 for a note that nobody has.
ALTER TABLE notes ADD COLUMN mended_by TEXT NOT NULL DEFAULT '';
ALTER TABLE notes ADD COLUMN mended INTEGER NOT NULL DEFAULT 0;
CREATE INDEX notes_updated ON notes (updated, id);

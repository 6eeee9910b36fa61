-- Where a host listens for others, and the fingerprint of its key. Both are those of the incarnation in proven.
ALTER TABLE hosts ADD COLUMN peer TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN fingerprint TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN proven TEXT COLLATE "C" NOT NULL DEFAULT '';

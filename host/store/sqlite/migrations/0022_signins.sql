-- Links to the console that were handed out, by the digest of their code.
CREATE TABLE signin_codes (
	digest  TEXT PRIMARY KEY,
	sender  TEXT NOT NULL,
	event   TEXT NOT NULL,
	asked   INTEGER NOT NULL,
	expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who is signed in at the console, by the digest of the token.
CREATE TABLE signins (
	id     TEXT PRIMARY KEY,
	digest TEXT NOT NULL UNIQUE,
	sender TEXT NOT NULL,
	began  INTEGER NOT NULL,
	used   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

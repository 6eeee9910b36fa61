-- Senders who asked to be let in, by sender key, and what came of it.
CREATE TABLE pairings (
  sender TEXT PRIMARY KEY,
  state  TEXT NOT NULL,
  body   BLOB NOT NULL
) WITHOUT ROWID;

-- Wrong codes by who tried them.
CREATE TABLE pairing_guesses (
  guesser TEXT PRIMARY KEY,
  wrong   INTEGER NOT NULL,
  since   INTEGER NOT NULL,
  locked  INTEGER NOT NULL
) WITHOUT ROWID;

-- Policies and plugins that people have installed, as the hosts that share the store agree on them. body describes one, and is empty after its
-- removal; revision is that of control.parts at its last change, and host made it.
CREATE TABLE parts (
  kind     TEXT NOT NULL,
  name     TEXT NOT NULL,
  body     BLOB NOT NULL,
  host     TEXT NOT NULL,
  revision INTEGER NOT NULL,
  PRIMARY KEY (kind, name)
);
ALTER TABLE control ADD COLUMN parts INTEGER NOT NULL DEFAULT 0;
-- Digests that the hosts agreed on before, latest first: they differ from those of now only by parts.
ALTER TABLE control ADD COLUMN superseded TEXT NOT NULL DEFAULT '';
CREATE TRIGGER control_parts_insert AFTER INSERT ON parts BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_parts_update AFTER UPDATE ON parts BEGIN UPDATE control SET generation = generation + 1; END;

-- Files that hosts give each other, by their SHA-256. One is there when it is complete; used is when it was last written or asked for.
CREATE TABLE blobs (
  digest   TEXT PRIMARY KEY,
  size     INTEGER NOT NULL,
  used     INTEGER NOT NULL,
  complete BOOLEAN NOT NULL
);
CREATE TABLE blob_chunks (
  digest TEXT NOT NULL,
  n      INTEGER NOT NULL,
  bytes  BLOB NOT NULL,
  PRIMARY KEY (digest, n)
);

-- Files of messages that a host asks others for: the handle is that of an attachment of a channel. The answer is the digest of a blob, or a problem.
CREATE TABLE wanted_files (
  id       TEXT PRIMARY KEY,
  host     TEXT NOT NULL,
  channel  TEXT NOT NULL,
  handle   TEXT NOT NULL,
  sender   TEXT NOT NULL,
  most     INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  state    TEXT NOT NULL DEFAULT 'wanted',
  digest   TEXT NOT NULL DEFAULT '',
  name     TEXT NOT NULL DEFAULT '',
  type     TEXT NOT NULL DEFAULT '',
  size     INTEGER NOT NULL DEFAULT 0,
  problem  TEXT NOT NULL DEFAULT ''
);
CREATE TRIGGER control_files_insert AFTER INSERT ON wanted_files BEGIN UPDATE control SET generation = generation + 1; END;

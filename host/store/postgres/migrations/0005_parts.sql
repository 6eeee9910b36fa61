-- Policies and plugins that people have installed, as the hosts that share the store agree on them. body describes one, and is empty after its
-- removal; revision is that of control.parts at its last change, and host made it.
CREATE TABLE parts (
  kind     TEXT COLLATE "C" NOT NULL,
  name     TEXT COLLATE "C" NOT NULL,
  body     BYTEA NOT NULL,
  host     TEXT COLLATE "C" NOT NULL,
  revision BIGINT NOT NULL,
  PRIMARY KEY (kind, name)
);
ALTER TABLE control ADD COLUMN parts BIGINT NOT NULL DEFAULT 0;
-- Digests that the hosts agreed on before, latest first: they differ from those of now only by parts.
ALTER TABLE control ADD COLUMN superseded TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE TRIGGER control_parts AFTER INSERT OR UPDATE ON parts FOR EACH ROW EXECUTE FUNCTION control_changed();

-- Files that hosts give each other, by their SHA-256. One is there when it is complete; used is when it was last written or asked for.
CREATE TABLE blobs (
  digest   TEXT COLLATE "C" PRIMARY KEY,
  size     BIGINT NOT NULL,
  used     BIGINT NOT NULL,
  complete BOOLEAN NOT NULL
);
CREATE TABLE blob_chunks (
  digest TEXT COLLATE "C" NOT NULL,
  n      BIGINT NOT NULL,
  bytes  BYTEA NOT NULL,
  PRIMARY KEY (digest, n)
);
ALTER TABLE blob_chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Files of messages that a host asks others for: the handle is that of an attachment of a channel. The answer is the digest of a blob, or a problem.
CREATE TABLE wanted_files (
  id       TEXT COLLATE "C" PRIMARY KEY,
  host     TEXT COLLATE "C" NOT NULL,
  channel  TEXT COLLATE "C" NOT NULL,
  handle   TEXT COLLATE "C" NOT NULL,
  sender   TEXT COLLATE "C" NOT NULL,
  most     BIGINT NOT NULL,
  at       BIGINT NOT NULL,
  state    TEXT COLLATE "C" NOT NULL DEFAULT 'wanted',
  digest   TEXT COLLATE "C" NOT NULL DEFAULT '',
  name     TEXT COLLATE "C" NOT NULL DEFAULT '',
  type     TEXT COLLATE "C" NOT NULL DEFAULT '',
  size     BIGINT NOT NULL DEFAULT 0,
  problem  TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE TRIGGER control_files AFTER INSERT ON wanted_files FOR EACH ROW EXECUTE FUNCTION control_changed();

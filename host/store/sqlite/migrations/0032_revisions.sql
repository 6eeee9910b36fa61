-- Changes of the configuration, as far as it concerns all hosts that share the store: number counts them, base is the one that the host had which
-- proposed it. was and digest are the digests of the configuration before and after; text_before and text_after are what concerns all of flynn.toml. The state is
-- open until the time of settles, and then agreed or refused, with the reason.
CREATE TABLE revisions (
  number      INTEGER PRIMARY KEY,
  host        TEXT NOT NULL,
  base        INTEGER NOT NULL,
  was         TEXT NOT NULL,
  digest      TEXT NOT NULL,
  text_before BLOB NOT NULL,
  text_after  BLOB NOT NULL,
  state       TEXT NOT NULL,
  reason      TEXT NOT NULL DEFAULT '',
  settles     INTEGER NOT NULL
);
-- What an incarnation of a host says to a revision; an empty reason is a yes.
CREATE TABLE votes (
  revision    INTEGER NOT NULL,
  host        TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  reason      TEXT NOT NULL,
  PRIMARY KEY (revision, host)
);
-- The digest of the configuration that a host runs with, and the revision that it has taken. Both are those of the incarnation in follows, which votes.
ALTER TABLE hosts ADD COLUMN shared TEXT NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hosts ADD COLUMN follows TEXT NOT NULL DEFAULT '';
-- The last revision that was agreed on, and until when hosts that voted for it may work with what was before.
ALTER TABLE control ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
ALTER TABLE control ADD COLUMN taken_by INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER control_revisions_insert AFTER INSERT ON revisions BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_revisions_update AFTER UPDATE ON revisions BEGIN UPDATE control SET generation = generation + 1; END;

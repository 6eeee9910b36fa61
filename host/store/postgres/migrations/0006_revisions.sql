-- Changes of the configuration, as far as it concerns all hosts that share the store: number counts them, base is the one that the host had which
-- proposed it. was and digest are the digests of the configuration before and after; text_before and text_after are what concerns all of flynn.toml. The state is
-- open until the time of settles, and then agreed or refused, with the reason.
CREATE TABLE revisions (
  number      BIGINT PRIMARY KEY,
  host        TEXT COLLATE "C" NOT NULL,
  base        BIGINT NOT NULL,
  was         TEXT COLLATE "C" NOT NULL,
  digest      TEXT COLLATE "C" NOT NULL,
  text_before BYTEA NOT NULL,
  text_after  BYTEA NOT NULL,
  state       TEXT COLLATE "C" NOT NULL,
  reason      TEXT COLLATE "C" NOT NULL DEFAULT '',
  settles     BIGINT NOT NULL
);
-- What an incarnation of a host says to a revision; an empty reason is a yes.
CREATE TABLE votes (
  revision    BIGINT NOT NULL,
  host        TEXT COLLATE "C" NOT NULL,
  incarnation TEXT COLLATE "C" NOT NULL,
  reason      TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (revision, host)
);
-- The digest of the configuration that a host runs with, and the revision that it has taken. Both are those of the incarnation in follows, which votes.
ALTER TABLE hosts ADD COLUMN shared TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
ALTER TABLE hosts ADD COLUMN follows TEXT COLLATE "C" NOT NULL DEFAULT '';
-- The last revision that was agreed on, and until when hosts that voted for it may work with what was before.
ALTER TABLE control ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
ALTER TABLE control ADD COLUMN taken_by BIGINT NOT NULL DEFAULT 0;
CREATE TRIGGER control_revisions AFTER INSERT OR UPDATE ON revisions FOR EACH ROW EXECUTE FUNCTION control_changed();

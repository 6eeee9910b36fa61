-- A host that shares the store renews a lease; times are nanoseconds since 1970 by the clock of the store. An incarnation must not act
-- before the lease of the one before it has expired.
ALTER TABLE hosts ADD COLUMN expires INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hosts ADD COLUMN begins INTEGER NOT NULL DEFAULT 0;
-- It begins nothing later than so many nanoseconds after it has sent a renewal; 0 if nobody notices when its connection ends. gone is from
-- when it counts as dead because that has happened, and 0 otherwise.
ALTER TABLE hosts ADD COLUMN reach INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hosts ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;
-- How long its last lease is.
ALTER TABLE hosts ADD COLUMN term INTEGER NOT NULL DEFAULT 0;
-- Until when a previous owner may still run what goes on without asking.
ALTER TABLE owners ADD COLUMN rest INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hosts ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN version TEXT NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN digests TEXT NOT NULL DEFAULT '';
-- When the incarnation renewed its lease first, 0 if it has not; when it left, once expires is 0.
ALTER TABLE hosts ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
-- Whether the host is to get no keys.
ALTER TABLE hosts ADD COLUMN drained INTEGER NOT NULL DEFAULT 0;

-- What other hosts want a host to know.
CREATE TABLE signals (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  host  TEXT NOT NULL,
  kind  TEXT NOT NULL,
  key   TEXT NOT NULL,
  epoch INTEGER NOT NULL
);
CREATE INDEX signals_host ON signals (host);

-- Keys of a dead host that another one has taken within a minute.
CREATE TABLE takeovers (
  host    TEXT NOT NULL,
  lost_by TEXT NOT NULL,
  minute  INTEGER NOT NULL,
  latest  INTEGER NOT NULL,
  keys    INTEGER NOT NULL,
  PRIMARY KEY (host, lost_by, minute)
);

-- The generation grows with each change that all hosts must learn of; each host that renews a lease gets a signal as well. The digests are
-- those that the hosts agree on. No key is given away before settles.
CREATE TABLE control (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  generation INTEGER NOT NULL,
  digests    TEXT NOT NULL DEFAULT '',
  settles    INTEGER NOT NULL DEFAULT 0
);
INSERT INTO control (id, generation) VALUES (1, 0);
CREATE TRIGGER control_halt_insert AFTER INSERT ON halt BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_halt_update AFTER UPDATE ON halt BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_halt_delete AFTER DELETE ON halt BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_pairings_insert AFTER INSERT ON pairings BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_pairings_update AFTER UPDATE ON pairings BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_pairings_delete AFTER DELETE ON pairings BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_elevations_insert AFTER INSERT ON elevations BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_elevations_update AFTER UPDATE ON elevations BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_elevations_delete AFTER DELETE ON elevations BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_signins_insert AFTER INSERT ON signins BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_signins_delete AFTER DELETE ON signins BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_approvals_update AFTER UPDATE ON approvals BEGIN UPDATE control SET generation = generation + 1; END;
CREATE TRIGGER control_signals AFTER UPDATE OF generation ON control BEGIN
  INSERT INTO signals (host, kind, key, epoch) SELECT id, 'control', '', 0 FROM hosts WHERE expires > 0;
END;

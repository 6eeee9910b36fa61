-- The records of sandboxes that hosts can take over from each other. The host with the highest epoch has it; the record has secrets.
CREATE TABLE sandboxes (
  key          TEXT PRIMARY KEY,
  workspace    TEXT NOT NULL,
  conversation TEXT NOT NULL,
  host         TEXT NOT NULL,
  epoch        INTEGER NOT NULL,
  record       BLOB NOT NULL
);
CREATE INDEX sandboxes_workspace ON sandboxes (workspace);

-- The host that has worked last with the files of a workspace, which other hosts do not have.
CREATE TABLE workspaces (
  workspace TEXT PRIMARY KEY,
  host      TEXT NOT NULL
);

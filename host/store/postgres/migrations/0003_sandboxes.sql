-- The records of sandboxes that hosts can take over from each other. The host with the highest epoch has it; the record has secrets.
CREATE TABLE sandboxes (
  key          TEXT COLLATE "C" PRIMARY KEY,
  workspace    TEXT COLLATE "C" NOT NULL,
  conversation TEXT COLLATE "C" NOT NULL,
  host         TEXT COLLATE "C" NOT NULL,
  epoch        BIGINT NOT NULL,
  record       BYTEA NOT NULL
);
CREATE INDEX sandboxes_workspace ON sandboxes (workspace);

-- The host that has worked last with the files of a workspace, which other hosts do not have.
CREATE TABLE workspaces (
  workspace TEXT COLLATE "C" PRIMARY KEY,
  host      TEXT COLLATE "C" NOT NULL
);

-- The oldest version of the schema whose Flynn can still work with the store, as hosts do that have not been upgraded yet.
ALTER TABLE written_by ADD COLUMN oldest BIGINT NOT NULL DEFAULT 1;

-- What is kept of one turn is found by the turn.
CREATE INDEX approvals_turn ON approvals (json_extract(CAST(body AS TEXT), '$.Turn'));
CREATE INDEX audit_turn ON audit (turn) WHERE turn <> '';

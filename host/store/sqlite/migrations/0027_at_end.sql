-- The host itself records these, once for each transaction.
DROP TRIGGER changes_inbox_insert;
DROP TRIGGER changes_inbox_update;
DROP TRIGGER changes_turns_insert;
DROP TRIGGER changes_turns_update;
DROP TRIGGER changes_decisions_insert;
DROP TRIGGER changes_usage_insert;
DROP TRIGGER said_insert;
DROP TRIGGER said_user;
DROP TRIGGER said_model;

-- The version of the Flynn that has written the store last, which an older one names when it refuses the store.
CREATE TABLE written_by (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	version TEXT NOT NULL
) STRICT;

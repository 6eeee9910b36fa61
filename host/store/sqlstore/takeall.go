package sqlstore

// TakeAll are the statements by which store.DefaultHost, which opens a store alone, takes over what hosts that shared it have left. They
// fence all of these out. The epochs of their keys grow with that of the host, which the caller increases after it.
var TakeAll = []string{
	`UPDATE owners SET host = 'home', epoch = epoch + coalesce((SELECT h.epoch FROM hosts h WHERE h.id = owners.host), 0)
		- coalesce((SELECT h.epoch FROM hosts h WHERE h.id = 'home'), 0) WHERE host <> 'home'`,
	"UPDATE hosts SET incarnation = '', expires = 0, begins = 0 WHERE id <> 'home' AND incarnation <> ''",
	"UPDATE hosts SET expires = 0 WHERE id = 'home' AND expires <> 0",
	"DELETE FROM signals",
}

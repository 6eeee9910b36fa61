package host

import (
	"time"

	"github.com/flynnhost/flynn/host/config"
)

// budgetZone says when the day of the daily budgets begins.
func budgetZone(c *config.Config) *time.Location {
	zone, err := c.Budgets.Location()
	if err != nil { // the check has seen it
		zone = time.Local
	}
	return zone
}

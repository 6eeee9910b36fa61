package config

import (
	"fmt"
	"time"
)

func (c *checker) budgets() {
	b := c.cfg.Budgets
	if _, err := b.Location(); err != nil {
		c.report(keyPath{"budgets", "time_zone"}, fmt.Sprintf("no time zone %q", b.TimeZone), `write a name of the IANA list such as "Europe/Berlin", or remove it`)
	}
}

// Location is the time zone of the budgets' days.
func (b Budgets) Location() (*time.Location, error) {
	if b.TimeZone == "" {
		return time.Local, nil
	}
	return time.LoadLocation(b.TimeZone)
}

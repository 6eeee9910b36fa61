package config

import (
	"bytes"
	"path/filepath"
	"strings"
)

// SharedDigest returns the digest of what the hosts that share a store must have in common: all but [store], [cluster], [gateway], [plugins] and
// the values of secrets. Paths count from the folder of the file.
// Keys that wait for a restart count as they are in the file.
func (c *Config) SharedDigest() string {
	if c.shared != "" {
		return c.shared
	}
	shared := *c
	shared.Store, shared.Cluster, shared.Gateway, shared.Plugins = Store{MaxAgeHours: c.Store.MaxAgeHours}, Cluster{}, Gateway{}, Plugins{}
	var text bytes.Buffer
	if err := shared.Show(&text); err != nil {
		return "" // it is no configuration that Load has returned
	}
	folder := filepath.Dir(c.Path) + string(filepath.Separator)
	return digest([]byte(strings.ReplaceAll(text.String(), `"`+folder, `"`)))
}

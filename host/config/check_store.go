package config

import "fmt"

// store reads the address of the database.
func (c *checker) store() {
	s, at := &c.cfg.Store, keyPath{"store", "url_env"}
	if s.URLEnv == "" {
		return
	}
	s.URL = c.fromEnv(at, s.URLEnv, false)
	if s.URL == "" && !c.secretless {
		c.report(at, fmt.Sprintf("environment variable %s is not set", s.URLEnv), "export it, as postgres://USER:PASSWORD@HOST/DATABASE; without url_env the store is a file")
	}
}

package config

import (
	"fmt"
	"path"
)

func (c *checker) media() {
	if m := c.cfg.Media; m.MaxObject > m.MaxTotal {
		c.report(keyPath{"media", "max_object"}, fmt.Sprintf("%v is more than max_total, %v", m.MaxObject, m.MaxTotal), "lower it, or raise max_total")
	}
	for i, glob := range c.cfg.Media.Accept {
		if _, err := path.Match(glob, ""); err != nil {
			c.report(keyPath{"media", "accept"}.index(i), fmt.Sprintf("%q is not a pattern", glob), `write "image/*" or "application/pdf"`)
		}
	}
}

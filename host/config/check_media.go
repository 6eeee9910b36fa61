package config

import "fmt"

func (c *checker) media() {
	if m := c.cfg.Media; m.MaxObject > m.MaxTotal {
		c.report(keyPath{"media", "max_object"}, fmt.Sprintf("%v is more than max_total, %v", m.MaxObject, m.MaxTotal), "lower it, or raise max_total")
	}
}

package config

// positions knows where each key of a file stands. It is made by locate.
type positions struct {
	keys map[string]position
}

type position struct {
	line  int
	order int // counts the keys of the file
}

// has reports whether the file sets the key or anything below it.
func (p *positions) has(path keyPath) bool {
	_, ok := p.keys[path.String()]
	return ok
}

// line is where the key stands, or what is nearest above it in the tree; 0 when the file has no part of it.
func (p *positions) line(path keyPath) int {
	for ; len(path) > 0; path = path[:len(path)-1] {
		if at, ok := p.keys[path.String()]; ok {
			return at.line
		}
	}
	return 0
}

// Line is the line of the file where a key stands, given by its segments ("routing", "senders", "slack:U0"), or of the
// nearest table around it; 0 when the file has neither.
func (c *Config) Line(key ...string) int {
	if c.lines == nil {
		return 0
	}
	return c.lines.line(key)
}

// Has reports whether the file has a key, given by its segments.
func (c *Config) Has(key ...string) bool { return c.lines != nil && c.lines.has(keyPath(key)) }

// Order counts the keys of the file up to the given one, so that keys of one table can be put in file order.
func (c *Config) Order(key ...string) int {
	if c.lines == nil {
		return 0
	}
	return c.lines.keys[keyPath(key).String()].order
}

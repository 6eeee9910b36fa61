package config

// positions has the position of each key of a file. It is made by locate.
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

// line is the line of the key, or of the nearest table around it; 0 if the file has none of them.
func (p *positions) line(path keyPath) int {
	for ; len(path) > 0; path = path[:len(path)-1] {
		if at, ok := p.keys[path.String()]; ok {
			return at.line
		}
	}
	return 0
}

// Line is the line of a key, given by its segments ("routing", "senders", "slack:U0"), or of the nearest table around
// it; 0 if the file has neither.
func (c *Config) Line(key ...string) int {
	if c.lines == nil {
		return 0
	}
	return c.lines.line(key)
}

// Has reports whether the file has a key, given by its segments.
func (c *Config) Has(key ...string) bool { return c.lines != nil && c.lines.has(keyPath(key)) }

// Order counts the keys of the file up to the given one; keys of one table can be sorted by it.
func (c *Config) Order(key ...string) int {
	if c.lines == nil {
		return 0
	}
	return c.lines.keys[keyPath(key).String()].order
}

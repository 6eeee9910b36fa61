package config

import (
	"crypto/subtle"
	"fmt"
)

// Client is an API client of the OpenAI or the MCP frontend with a token of its own.
type Client struct {
	Token     Secret `toml:"-"` // from TokenEnv or TokenFile
	TokenEnv  string `toml:"token_env"`
	TokenFile string `toml:"token_file" is:"path"` // mode 0600 or stricter
	// Role is the client's role for policies and tools; a client is never an owner.
	Role string `toml:"role" default:"guest" oneof:"member guest"`
	// Agents are the agents that it may use.
	Agents []string `toml:"agents" ref:"agent"` // required
	// Ignore are parts of its requests at /v1 that are ignored instead of refused.
	Ignore []string `toml:"ignore" oneof:"tools response_format"`
}

// Gatekeeper is the name of the client that has the gateway's own token.
const Gatekeeper = "owner"

// minToken keeps tokens from being guessed, in bytes.
const minToken = 24

// ClientOf returns the client of a token. It takes the same time for every wrong token.
func (c *Config) ClientOf(token string) (name string, ok bool) {
	for _, n := range sorted(c.Clients) {
		if subtle.ConstantTimeCompare([]byte(c.Clients[n].Token.Reveal()), []byte(token)) == 1 {
			name, ok = n, true
		}
	}
	return name, ok
}

func (c *checker) clients() {
	seen := map[Secret]string{}
	for _, name := range sorted(c.cfg.Clients) {
		at, cl := keyPath{"clients", name}, c.cfg.Clients[name]
		c.name(at, name)
		if name == Gatekeeper {
			c.report(at, fmt.Sprintf("%q is the client with the gateway's own token", name), "choose another name")
		}
		if len(cl.Agents) == 0 {
			c.report(at.child("agents"), "missing", `name the agents that it may ask, such as agents = ["helper"]`)
		}
		cl.Token = c.secret(at, "token", cl.TokenEnv, cl.TokenFile, true,
			"name the environment variable of its token, or the token's file with token_file")
		c.cfg.Clients[name] = cl
		switch other := seen[cl.Token]; {
		case cl.Token == "":
		case other != "":
			c.report(at, fmt.Sprintf("its token is that of clients.%s", other), "give each client a token of its own")
		case len(cl.Token) < minToken:
			c.report(at, fmt.Sprintf("its token has fewer than %d bytes", minToken), "make one with: openssl rand -hex 32")
		default:
			seen[cl.Token] = name
		}
	}
}

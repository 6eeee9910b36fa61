// Package backend implements gateway.Backend with the areas of the host, and translates their types into the gateway's.
//
// There is one file for each subject of gateway.Backend: start with status.go for flynn status, with conversations.go for the chats on
// the page, and with clients.go for API clients. Each type names what it needs of an area in its fields.
// The package does not listen or check tokens, which the gateway does, and decides nothing: it returns the answers of the areas.
package backend

import (
	"errors"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
)

// InForce is the configuration in force, and the generation of agents made from it.
type InForce struct {
	*agent.Generation
	Config *config.Config
	// Tiers is the state of the models of Generation.
	Tiers interface{ Status() []model.Status }
}

// as returns an error with the text of err that is also kind, from which the gateway chooses the status.
func as(err, kind error) error { return worded{err.Error(), errors.Join(kind, err)} }

// worded is an error with a text for people.
type worded struct {
	text string
	err  error
}

func (w worded) Error() string { return w.text }
func (w worded) Unwrap() error { return w.err }

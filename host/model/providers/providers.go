// Package providers lists the providers that Flynn is built with.
//
// Start with All. The package is separate from package model so that the types of that package
// do not depend on any vendor's client.
package providers

import (
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/anthropic"
	"github.com/flynnhost/flynn/host/model/demo"
	"github.com/flynnhost/flynn/host/model/openai"
)

// All returns the constructor of every provider by its name in flynn.toml.
func All() map[string]model.Constructor {
	return map[string]model.Constructor{
		anthropic.Name: anthropic.New,
		demo.Name:      demo.New,
		openai.Name:    openai.New,
	}
}

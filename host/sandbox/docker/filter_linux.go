package docker

import (
	"encoding/json"

	"github.com/moby/profiles/seccomp"
)

// dockersFilter is the filter of system calls that Docker's containers have, as a file for Podman.
func dockersFilter() ([]byte, error) { return json.Marshal(seccomp.DefaultProfile()) }

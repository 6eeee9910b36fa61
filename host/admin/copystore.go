package admin

import (
	"context"
	"fmt"
	"regexp"
	"sync"

	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/store/database"
	"github.com/flynnhost/flynn/host/store/transfer"
)

// variableName matches what is the name of a variable and not a folder.
var variableName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`) })

// CopyStore copies a store into an empty one; see transfer.Copy. Each is a folder, or the name of a variable that holds the address of a
// Postgres database.
func CopyStore(ctx context.Context, from, to string, getenv func(string) string, progress func(transfer.Table)) error {
	var at [2]database.Location
	for i, name := range []string{from, to} {
		if !variableName().MatchString(name) {
			at[i] = database.At(name, "", "", "")
			continue
		}
		url := getenv(name)
		if url == "" {
			return fmt.Errorf("copy the store: environment variable %s is not set: export it, as postgres://USER:PASSWORD@HOST/DATABASE; write ./%s for a folder", name, name)
		}
		at[i] = database.At("", name, redact.Secret(url), "")
	}
	return transfer.Copy(ctx, at[0], at[1], progress)
}
